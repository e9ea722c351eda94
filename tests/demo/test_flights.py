"""The demo's data, read from the package's file."""

import zipfile

import orjson

from cli.demo.flights import FLIGHTS_MAX, find_data, read_flights


def test_a_flight_is_routed_by_carrier_and_origin_and_has_all_its_columns() -> None:
    (flight,) = read_flights(1)

    assert (flight.number, flight.carrier, flight.routing_key) == (0, "UA", "UA.EWR")
    body = orjson.loads(flight.body)
    assert len(body) == 19
    assert (body["dep_delay"], body["tailnum"], body["flight"]) == (2, "N14228", 1545)


def test_what_is_missing_in_the_data_is_null() -> None:
    cancelled = [orjson.loads(flight.body) for flight in read_flights(1000)]

    assert {type(flight["dep_delay"]) for flight in cancelled} == {int, type(None)}


def test_the_number_of_flights_is_that_of_the_data() -> None:
    with (
        zipfile.ZipFile(find_data() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as lines,
    ):
        assert sum(1 for _ in lines) - 1 == FLIGHTS_MAX
