"""Turns go round clients, and first pieces go before later ones; whoever leaves frees the place at once."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from specdec_cli.serve.engine import ServeEngine
from specdec_cli.serve.turns import Turns


async def order_of(asked: list[tuple[str, bool]], leaving: int | None = None) -> list[int]:
    """The numbers of turns at one place in the order in which they begin; that of `leaving` is given up before."""
    turns, began = Turns(1), list[int]()

    async def take(number: int, client: str, later: bool) -> None:
        async with turns.turn(client, later=later):
            began.append(number)
            await asyncio.sleep(0)

    async with turns.turn("first"):
        tasks = [asyncio.create_task(take(number, *each)) for number, each in enumerate(asked)]
        await asyncio.sleep(0)
        if leaving is not None:
            tasks[leaving].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return began


def test_turns_go_round_clients():
    asked = [("a", False)] * 3 + [("b", False)] * 2
    assert asyncio.run(order_of(asked)) == [0, 3, 1, 4, 2]


def test_a_first_piece_goes_before_later_ones():
    assert asyncio.run(order_of([("a", True), ("a", True), ("a", False), ("b", True)])) == [2, 0, 3, 1]


def test_who_leaves_while_waiting_costs_no_place():
    assert asyncio.run(order_of([("a", False), ("a", False), ("b", False)], leaving=0)) == [2, 1]


def test_a_later_piece_gives_way_to_a_first_one_and_not_for_ever(monkeypatch):
    waited = list[float]()
    monkeypatch.setattr("specdec_cli.models.engine.Engine.logits", lambda *_: waited.append(time.monotonic()))
    with ServeEngine([], 2) as engine:

        def later() -> None:
            with engine.request(threading.Event(), later=True):
                engine.logits(None, (), 1)

        with engine.ahead():
            started = time.monotonic()
            thread = threading.Thread(target=later)
            thread.start()
            thread.join(60)
        assert waited.pop() - started > 0.2
        later()
        assert len(waited) == 1


def test_later_pieces_leave_an_encoder_to_first_ones(monkeypatch):
    monkeypatch.setattr("specdec_cli.serve.engine.encoders_and_threads", lambda _: (2, 1))
    inside, leave, left = threading.Semaphore(0), threading.Event(), threading.Event()
    with ServeEngine([], 2) as engine:

        def encode(later: bool) -> None:
            with engine.request(left, later=later), engine.encoder_turn():
                inside.release()
                leave.wait(60)

        with ThreadPoolExecutor(3) as pool:
            later = [pool.submit(encode, True) for _ in range(2)]
            assert inside.acquire(timeout=60)
            assert not inside.acquire(timeout=0.2)  # the other one waits
            first = pool.submit(encode, False)
            assert inside.acquire(timeout=60)
            leave.set()
            for each in (*later, first):
                each.result(60)
