"""A server on this machine in the place of the network, and archives for it."""

import contextlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import numpy as np


class Server:
    """Answers by path: bytes, or a function that is given the request's handler."""

    def __init__(self):
        self.answers, self.asked, self.closing = {}, [], threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.asked.append(self.path)
                answer = server.answers.get(self.path)
                self.close_connection = True
                with contextlib.suppress(OSError):
                    if answer is None:
                        self.send_error(404)
                    elif callable(answer):
                        answer(self)
                    else:
                        start(self, len(answer))
                        self.wfile.write(answer)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def serve(self, url, answer):
        parts = urlsplit(url)
        self.answers[f"/{parts.netloc}{parts.path}"] = answer

    def close(self):
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()


def start(handler, length):
    handler.send_response(200)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()


def zipped(**files):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return raw.getvalue()


def text(values, delimiter, newline="\n", form=repr):
    return "".join(delimiter.join(map(form, row)) + newline for row in np.asarray(values).tolist())
