"""Parcels to a real broker, as any producer's."""

from __future__ import annotations

from tests.pipeline.sinks import messages_in

from rocketpipe.client.session import Session
from rocketpipe.pipeline.write_options import WriteOptions
from rocketpipe.pipeline.writer_direct import DirectWay
from rocketpipe.pipeline.writer_outlet import Outlet, Parcel
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.testing import Cluster


def test_batches_and_single_messages_are_stored(servers: Cluster) -> None:
    session = Session(servers.name_server)
    way = DirectWay(session, "sparks")
    batch = encode_batch([Entry(0, b"one", b"TAGS\x01t\x02"), Entry(0, b"two", b"")])
    with Outlet(WriteOptions(servers.name_server), session, way) as outlet:
        outlet.send(Parcel("sink-direct", memoryview(batch), 2, "A" * 32, 17))
        outlet.finish()
        queue = outlet.queues("sink-direct")[1]
        outlet.send(Parcel("sink-direct", b"alone", 1, "B" * 32, 18, "KEYS\x01k\x02"), queue)
        outlet.finish()
    found = {message.body: message for message in messages_in(servers.name_server, "sink-direct")}
    assert set(found) == {b"one", b"two", b"alone"}
    assert found[b"one"].tags == "t"
    assert found[b"one"].born_ms == 17
    assert (found[b"alone"].queue_id, found[b"alone"].keys) == (1, ("k",))
    assert way.unsure == 0
