"""Which processes a cluster has."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rocketpipe.cli.children import ports as lasting
from rocketpipe.cli.cluster import layout
from rocketpipe.cli.cluster.layout import Kind, Layout, Mode, laid_out
from rocketpipe.errors import ConfigError


def made(
    mode: Mode | None = None,
    replicas: int | None = None,
    zookeepers: int | None = None,
    *,
    known: Layout | None = None,
    session_ms: int | None = None,
    namesrv_port: int | None = None,
) -> Layout:
    return laid_out(
        known,
        mode=mode,
        replicas=replicas,
        zookeepers=zookeepers,
        session_ms=session_ms,
        namesrv_port=namesrv_port,
    )


@pytest.mark.parametrize(
    ("mode", "replicas", "names"),
    [
        (Mode.SINGLE, None, "namesrv broker-a"),
        (Mode.TWO_MASTERS, None, "namesrv broker-a broker-b"),
        (Mode.ASYNC, None, "namesrv broker-a broker-a-s broker-b broker-b-s"),
        (Mode.SYNC, 3, "namesrv broker-a broker-a-s broker-a-s2 broker-b broker-b-s broker-b-s2"),
        (Mode.ELECTED, None, "zookeeper-1 namesrv broker-a-1 broker-a-2 broker-a-3"),
    ],
)
def test_each_mode_has_its_processes(mode: Mode, replicas: int | None, names: str) -> None:
    assert [place.name for place in made(mode, replicas).places] == names.split()


def test_an_elected_cluster_is_what_is_made_if_nobody_says() -> None:
    assert made().mode is Mode.ELECTED


def test_ports_are_free_and_none_is_used_twice() -> None:
    wanted = made(Mode.ELECTED, 9, 7)
    ports = [
        port
        for place in wanted.places
        for port in (place.port, place.ha_port, place.peer_port, place.election_port)
        if port
    ] + [port for place in wanted.places for port in place.relays.values()]
    assert len(ports) == len(set(ports))
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()
        assert port < 32_768  # a connection that somebody makes meanwhile does not take it


def test_what_was_chosen_is_kept(tmp_path: Path) -> None:
    wanted = made(Mode.ELECTED, session_ms=1_000)
    wanted.save(tmp_path)
    known = layout.load(tmp_path)
    assert known == wanted
    assert made(known=known) == wanted
    assert made(Mode.ELECTED, 3, 1, known=known) == wanted


def test_replicas_are_added_and_the_others_stay_as_they_are() -> None:
    known = made(Mode.ELECTED, 2)
    more = made(replicas=4, known=known)
    assert more.places[: len(known.places)] == known.places
    assert [place.name for place in more.places[len(known.places) :]] == [
        "broker-a-3",
        "broker-a-4",
    ]
    ports = [port for place in more.places for port in (place.port, *place.relays.values())]
    assert len(ports) == len(set(ports))


def test_ports_of_processes_that_do_not_run_now_are_not_given_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lasting, "_FIRST_PORT", 27_000)
    monkeypatch.setattr(lasting, "_END_PORT", 27_090)
    more = made(replicas=9, known=made(Mode.ELECTED, 7))
    ports = [port for place in more.places for port in layout._ports_of(place) if port]
    assert len(ports) == len(set(ports))


def test_slaves_are_added_to_both_masters() -> None:
    more = made(replicas=3, known=made(Mode.SYNC))
    added = {place.name: place for place in more.places[-2:]}
    assert set(added) == {"broker-a-s2", "broker-b-s2"}
    assert added["broker-b-s2"].broker_id == 2
    assert list(added["broker-b-s2"].relays) == ["broker-b"]


def test_another_session_is_taken_over() -> None:
    assert made(known=made(), session_ms=5_000).session_ms == 5_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"mode": Mode.SYNC}, "--mode: this cluster is elected"),
        ({"replicas": 2}, "--replicas: this cluster has 3"),
        ({"zookeepers": 3}, "--zookeepers: this cluster has 1"),
        ({"namesrv_port": 1}, "--namesrv-port: this cluster's is 127.0.0.1"),
        ({"replicas": 10}, "at most 9"),
    ],
)
def test_a_cluster_does_not_become_another(flags: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        laid_out(
            made(),
            **{
                "mode": None,
                "replicas": None,
                "zookeepers": None,
                "session_ms": None,
                **flags,  # type: ignore[arg-type]
            },
        )


@pytest.mark.parametrize(
    ("mode", "replicas", "zookeepers", "message"),
    [
        (Mode.SINGLE, 2, None, "single has none"),
        (Mode.TWO_MASTERS, 3, None, "two-masters has none"),
        (Mode.SYNC, 1, None, "2 or more"),
        (Mode.ASYNC, None, 1, "only --mode elected"),
        (Mode.ELECTED, None, 8, "at most 7"),
    ],
)
def test_what_a_mode_has_not_is_refused(
    mode: Mode, replicas: int | None, zookeepers: int | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(mode, replicas, zookeepers)


def test_the_name_server_may_have_a_port_that_people_know() -> None:
    assert made(Mode.SINGLE, namesrv_port=9876).name_server == "127.0.0.1:9876"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mode": "best"}', '{"mode":"single"}'])
def test_a_layout_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / layout.FILE_NAME).write_text(text)
    with pytest.raises(ConfigError, match=r"cluster\.json: is no cluster's layout"):
        layout.load(tmp_path)


def test_a_layout_of_another_version_is_refused(tmp_path: Path) -> None:
    made(Mode.SINGLE).save(tmp_path)
    path = tmp_path / layout.FILE_NAME
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(ConfigError, match="another version"):
        layout.load(tmp_path)


def test_an_empty_directory_has_no_cluster(tmp_path: Path) -> None:
    assert layout.load(tmp_path) is None


def test_processes_are_found_by_kind() -> None:
    wanted = made(Mode.ELECTED, 2, 3)
    assert [place.name for place in wanted.of_kind(Kind.ZOOKEEPER)] == [
        "zookeeper-1",
        "zookeeper-2",
        "zookeeper-3",
    ]
