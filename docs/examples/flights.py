"""Delays of 336,776 flights, from an export of `amqp-server` to a picture.

A notebook in percent format: VS Code, Spyder and Jupyter (with jupytext) run it cell by cell, and
`python flights.py` as a whole. Before it, and once:

    pip install 'amqp-server[spark,demo]'
    amqp-server demo --out ./lake            # publishes the flights, and exports their queue
"""

# %% Where the export is, and where the picture goes
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

LAKE = sys.argv[1] if len(sys.argv) > 1 else "./lake"
PICTURE = Path(sys.argv[2] if len(sys.argv) > 2 else "flights.png")
AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}

# %% An export is plain Parquet, one row for each message
spark = SparkSession.builder.getOrCreate()
messages = spark.read.parquet(LAKE)

# %% The body is what was published: here, JSON
COLUMNS = "origin STRING, hour INT, dep_delay DOUBLE"


def flights_of(rows: DataFrame) -> DataFrame:
    """Return the flights that the messages tell of."""
    flight = F.from_json(F.col("value").cast("string"), COLUMNS)
    return rows.where("topic = 'flights'").select(flight.alias("flight")).select("flight.*")


flights = flights_of(messages)

# %% Spark does the counting; what comes back is small
by_hour = (
    flights.groupBy("origin", "hour")
    .agg(F.count("*").alias("flights"), F.mean("dep_delay").alias("delay_minutes"))
    .orderBy("origin", "hour")
    .toPandas()
)
print(by_hour.head(10).to_string(index=False))

# %% The later in the day, the later the flight
figure, (above, below) = plt.subplots(
    2, 1, figsize=(9, 7), sharex=True, height_ratios=(2, 1), layout="constrained"
)
for origin, name in AIRPORTS.items():
    here = by_hour[(by_hour.origin == origin) & (by_hour.hour >= 5)]
    above.plot(here.hour, here.delay_minutes, marker="o", label=f"{name} ({origin})")
    below.plot(here.hour, here.flights / 1000, marker="o")
total = int(by_hour.flights.sum())
above.set_title(f"{total:,} departures from New York, each once a message in a queue")
above.set_ylabel("mean delay of departure, minutes")
above.legend()
below.set_ylabel("flights, thousands")
below.set_xlabel("scheduled hour of departure")
for axes in (above, below):
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
below.set_xticks(range(5, 24, 2))
figure.savefig(PICTURE, dpi=100)
print(f"{PICTURE}: {total} flights")
