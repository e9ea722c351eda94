from dataclasses import FrozenInstanceError, replace

import pytest

from appendlog import DURABLE, EDGE, STORAGE, THROUGHPUT, Compression, EmbeddedOptions

PRESETS = {"throughput": THROUGHPUT, "storage": STORAGE, "edge": EDGE, "durable": DURABLE}


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_preset_is_bounded_in_memory_and_in_what_a_crash_takes(preset: EmbeddedOptions) -> None:
    assert preset.batch_bytes <= 1 << 20
    assert preset.sync_each_append or 0 < preset.sync_interval_seconds <= 1.0


@pytest.mark.parametrize("preset", [STORAGE, EDGE], ids=["storage", "edge"])
def test_a_preset_for_little_room_compresses_and_has_a_bound_for_the_disk(
    preset: EmbeddedOptions,
) -> None:
    assert preset.compression is Compression.ZSTD
    assert preset.retain_total_bytes > 0
    assert preset.retention().has_bounds
    # Or nothing could ever be removed within the bound.
    assert preset.segment_bytes * 4 <= preset.retain_total_bytes


def test_a_preset_cannot_be_changed_but_a_changed_one_can_be_made() -> None:
    with pytest.raises(FrozenInstanceError):
        EDGE.batch_bytes = 1  # type: ignore[misc]
    assert replace(EDGE, batch_bytes=1).batch_bytes == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_bytes": -1},
        {"batch_bytes": (64 << 20) + 1},
        {"chunk_bytes": 0},
        {"sync_interval_seconds": -1.0},
        {"sync_bytes": -1},
        {"segment_bytes": 0},
        {"segment_age_seconds": -1.0},
        {"retain_seconds": -1.0},
        {"retain_total_bytes": -1},
        {"segments_min": 0},
        {"force_after_seconds": -1.0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_option_out_of_its_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EmbeddedOptions(**wrong)  # type: ignore[arg-type]


def test_retention_is_that_of_the_log_in_nanoseconds() -> None:
    options = EmbeddedOptions(
        retain_seconds=1.5, retain_bytes=7, segments_min=2, force_after_seconds=3.0
    )
    policy = options.retention()
    assert (policy.retain_for_ns, policy.retain_bytes) == (1_500_000_000, 7)
    assert (policy.segments_min, policy.force_after_ns) == (2, 3_000_000_000)
    assert policy.protects_unconsumed
