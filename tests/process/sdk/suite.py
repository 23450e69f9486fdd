"""The Python package against a server of its own: suite.py STATE MODEL_FILE."""
import asyncio
import sys
import threading
import unittest

import holdfast
import holdfast.aio

STATE, FILE = sys.argv[1:3]
ASKED = dict(model="demo", prompt="To be, or not", max_tokens=16, seed=1, ignore_eos=True)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = holdfast.open(STATE)
        cls.server.add("demo", FILE)
        cls.server.load("demo")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop_server()
        cls.server.close()

    def test_stream_gives_each_token_once(self):
        with self.server.stream(**ASKED) as stream:
            parts = list(stream)
        self.assertEqual([i for part in parts for i in range(part.index, part.index + len(part.ids))], list(range(16)))
        self.assertEqual(parts[-1].finish, "length")
        self.assertEqual("".join(part.text for part in parts), self.server.complete(**ASKED))

    def test_attach_from_an_index(self):
        request = self.server.submit(**ASKED)
        whole = [token for part in self.server.attach(request) for token in part.ids]
        rest = [token for part in self.server.attach(request, [10]) for token in part.ids]
        self.assertEqual(rest, whole[10:])

    def test_stop_strings_are_no_part_of_the_text(self):
        whole = self.server.complete(**{**ASKED, "max_tokens": 60})
        stop = whole[20:24]
        text = self.server.complete(**{**ASKED, "max_tokens": 60}, stop=[stop, "never there"])
        self.assertEqual(text, whole[:whole.index(stop)])

    def test_a_choice_that_is_done_gives_nothing(self):
        request = self.server.submit(**ASKED, n=2)
        self.server.attach(request).text()
        parts = list(self.server.attach(request, [holdfast.DONE, 10]))
        self.assertEqual({part.choice for part in parts}, {1})
        self.assertEqual(list(self.server.attach(request, [holdfast.DONE, holdfast.DONE])), [])

    def test_same_key_is_the_same_request(self):
        first = self.server.submit(**ASKED, key="once")
        self.assertEqual(self.server.submit(**ASKED, key="once"), first)
        with self.assertRaises(holdfast.Error) as caught:
            self.server.submit(**{**ASKED, "max_tokens": 17}, key="once")
        self.assertEqual(caught.exception.code, "idempotency_mismatch")

    def test_states(self):
        request = self.server.submit(**{**ASKED, "max_tokens": 400})
        state = self.server.cancel(request)
        self.assertEqual(state["id"], request)
        for _ in self.server.attach(request):
            pass
        self.assertIn(self.server.status(request)["state"], ("cancelled", "succeeded"))

    def test_choices(self):
        with self.server.stream(**ASKED, n=3, temperature=1.0) as stream:
            ends = {part.choice: part.finish for part in stream if part.finish}
        self.assertEqual(ends, {0: "length", 1: "length", 2: "length"})

    def test_chat_with_messages_is_refused_without_a_template(self):
        try:
            text = self.server.complete(model="demo", messages=[{"role": "user", "content": "a"}], max_tokens=4)
            self.assertIsInstance(text, str)
        except holdfast.Error as error:
            self.assertEqual(error.code, "no_chat_template")

    def test_wrong_requests_are_typed_errors(self):
        for request, code in (({"model": "nobody", "prompt": "a"}, "model_not_found"),
                              ({"prompt": "a"}, "invalid_request"),
                              ({**ASKED, "temperature": -1}, "invalid_request"),
                              ({**ASKED, "temprature": 1}, "invalid_request"),
                              ({**ASKED, "ids": [1]}, "invalid_request"),
                              ({**ASKED, "echo": True}, "invalid_request"),
                              ({**ASKED, "top_k": "many"}, "invalid_request"),
                              ({**ASKED, "dry_base": 0}, "invalid_request")):
            with self.subTest(request=request), self.assertRaises(holdfast.Error) as caught:
                self.server.submit(**request)
            self.assertEqual(caught.exception.code, code, caught.exception)
        with self.assertRaises(holdfast.Error) as caught:
            list(self.server.attach("0" * 26))
        self.assertEqual(caught.exception.code, "not_found")

    def test_models(self):
        (model,) = self.server.models()
        self.assertEqual((model["name"], model["state"]), ("demo", "ready"))
        self.server.unload("demo")
        self.assertTrue(self.server.complete(**ASKED))
        with self.assertRaises(holdfast.Error):
            self.server.add("broken", "/no/such/file")

    def test_timeout(self):
        stream = self.server.stream(**{**ASKED, "max_tokens": 400})
        with self.assertRaises(TimeoutError):
            while stream.next(timeout=0) is not None:
                pass
        stream.close()

    def test_threads(self):
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(self.server.complete(**ASKED))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(texts)), 1)
        self.assertEqual(len(texts), 8)

    def test_asyncio(self):
        async def ask():
            async with holdfast.aio.open(STATE) as server:
                both = await asyncio.gather(server.complete(**ASKED), server.complete(**ASKED))
                stream = await server.stream(**ASKED)
                text = "".join([part.text async for part in stream])
                return {*both, text}

        self.assertEqual(len(asyncio.run(ask())), 1)

    def test_closed_client_says_so(self):
        client = holdfast.open(STATE)
        client.close()
        with self.assertRaises(holdfast.Error):
            client.models()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
