"""Files of logs: plain, compressed, rolling, cut off."""

import struct
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doctor import logs

from headgate.doctor.diagnosis import read_application
from headgate.doctor.event_log import _varint, lines_of, log_files
from headgate.errors import ConfigError

TEXT = b"\n".join(logs.lines(logs.log([[3, 1], [4, 2]]))) + b"\n"


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def lz4(data: bytes, size: int = 700) -> bytes:
    """As lz4-java writes it, in blocks; the last one is empty."""
    out = b""
    for start in range(0, len(data), size):
        block = data[start : start + size]
        packed = pa.Codec("lz4_raw").compress(block, asbytes=True)
        raw = len(packed) >= len(block)
        body = block if raw else packed
        out += struct.pack("<8sBIII", b"LZ4Block", 0x10 if raw else 0x20, len(body), len(block), 0) + body
    return out + struct.pack("<8sBIII", b"LZ4Block", 0x10, 0, 0, 0)


def snappy(data: bytes, size: int = 700) -> bytes:
    out = b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1)
    for start in range(0, len(data), size):
        packed = pa.Codec("snappy").compress(data[start : start + size], asbytes=True)
        out += struct.pack(">I", len(packed)) + packed
    return out


CODECS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".zstd": zstd, ".lz4": lz4, ".snappy": snappy}


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_is_read_whatever_its_codec(codec, tmp_path) -> None:
    file = tmp_path / f"local-1{codec}"
    file.write_bytes(CODECS[codec](TEXT))
    assert list(lines_of(str(file))) == TEXT.splitlines()
    assert read_application(str(file)).ended


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_is_cut_off_gives_what_came_before(codec, tmp_path) -> None:
    file = tmp_path / f"local-1{codec}.inprogress"
    whole = CODECS[codec](TEXT)
    file.write_bytes(whole[: len(whole) * 2 // 3])
    *complete, _ = list(lines_of(str(file))) or [b""]
    assert complete == TEXT.splitlines()[: len(complete)]


def test_an_unknown_codec_is_refused(tmp_path) -> None:
    (tmp_path / "local-1.lzf").write_bytes(b"ZV")
    with pytest.raises(ConfigError, match=r"spark.eventLog.compression.codec=zstd"):
        read_application(str(tmp_path / "local-1.lzf"))


def test_a_rolling_log_is_read_in_order_from_its_last_compaction(tmp_path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "appstatus_local-1").write_bytes(b"")
    for name in ("events_1_local-1", "events_2_local-1", "events_2_local-1.compact", "events_10_local-1"):
        (folder / name).write_bytes(b"")
    names = [file.rsplit("/", 1)[-1] for file in log_files(str(tmp_path))]
    assert names == ["events_2_local-1.compact", "events_10_local-1"]
    (folder / "events_2_local-1.compact").unlink()
    names = [file.rsplit("/", 1)[-1] for file in log_files(str(folder))]
    assert names == ["events_1_local-1", "events_2_local-1", "events_10_local-1"]


def test_of_several_logs_the_newest_or_the_named_one_is_read(tmp_path) -> None:
    import os

    for number, name in enumerate(("local-1", "local-2.zstd.inprogress", "local-3")):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (number, 10 - number))
    assert log_files(str(tmp_path))[0].endswith("local-1")
    assert log_files(str(tmp_path), "local-2")[0].endswith("local-2.zstd.inprogress")
    with pytest.raises(ConfigError, match="it has local-1, local-2"):
        log_files(str(tmp_path), "local-9")


def test_a_path_without_a_log_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        log_files(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"spark.eventLog.enabled=true"):
        log_files(str(tmp_path))


@given(st.integers(0, 2**28 - 1))
def test_lengths_of_seven_bits_a_byte(number) -> None:
    data, left = [], number
    while left >= 128:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    assert _varint(bytes([*data, left, 77])) == number
