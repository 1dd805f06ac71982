"""tests/support/bad_server.py FOLDER LOG - an HTTP server that serves a folder badly

Prints its port, then serves until its standard input closes. The first part of a path, up to a "-",
says how a file is served; each request is a line of LOG: "path range status".

  /ok/F         as it should be, ranges too      /norange/F   ranges ignored: 200 from the start
  /truncate/F   long answers broken off half-way /wrongrange/F 206 from another offset
  /stall/F      twice half and then silence      /stalls/F    always silence after 2000 bytes
  /busy/F       503 twice, then ok               /page/F      200 with a page of text/html
  /plainpage/F  a page that claims to be bytes   /corrupt/F   one byte changed
  /long/F       more bytes than the file has     /chunked/F   ok, without a length, no ranges
  /short/F      claims more bytes than it sends  /moved/F     redirected to /ok/F
  /once/F       one byte changed the first time  /drip/F      ok, slowly
"""
import http.server
import os
import sys
import threading
import time

folder, log_path = sys.argv[1:3]
counts = {}
lock = threading.Lock()
PAGE = b"<!DOCTYPE html><html><body>please sign in</body></html>" * 40


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, status):
        with lock, open(log_path, "a", encoding="ascii") as log:
            log.write(f"{self.path} {self.headers.get('Range', '-')} {status}\n")

    def reply(self, status, body, headers=(), send=None):
        """Announces the whole body, sends `send` bytes of it."""
        self.note(status)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if send is None else body[:send])
        self.wfile.flush()
        if send is not None:
            self.close_connection = True

    def serve(self, data, send=None, shift=0):
        """Answers a range if there is one, as a good server does."""
        wanted = self.headers.get("Range")
        kind = [("Content-Type", "application/octet-stream")]
        if not wanted:
            self.reply(200, data, kind, send)
            return
        start = int(wanted.split("=")[1].split("-")[0]) + shift
        if start >= len(data):
            self.reply(416, b"", [("Content-Range", f"bytes */{len(data)}")])
            return
        rest = data[start:]
        place = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.reply(206, rest, kind + [("Content-Range", place)],
                   None if send is None or len(rest) < 2000 else len(rest) // 2)

    def do_GET(self):
        _, how, name = self.path.split("/", 2)
        with lock:
            counts[self.path] = counts.get(self.path, 0) + 1
            count = counts[self.path]
        path = os.path.join(folder, name)
        try:
            if os.path.exists(path):
                with open(path, "rb") as file:
                    self.answer(how.split("-")[0], name, file.read(), count)
            else:
                self.reply(404, PAGE, [("Content-Type", "text/html")])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, how, name, data, count):
        changed = data[:1500] + bytes([data[1500] ^ 1]) + data[1501:]
        if how == "truncate":
            self.serve(data, send=len(data) // 2)
        elif how == "stall" and count <= 2:
            self.serve(data, send=len(data) // 2)
            time.sleep(20)
        elif how == "stalls":
            self.reply(200, data, send=2000)
            time.sleep(20)
        elif how == "busy" and count <= 2:
            self.reply(503, b"busy")
        elif how == "norange":
            self.reply(200, data, send=len(data) // 2 if count == 1 else None)
        elif how == "wrongrange":
            self.serve(data, send=len(data) // 2 if count == 1 else None, shift=8)
        elif how == "page":
            self.reply(200, PAGE, [("Content-Type", "text/html; charset=utf-8")])
        elif how == "plainpage":
            self.reply(200, PAGE)
        elif how == "corrupt" or (how == "once" and count == 1):
            self.serve(changed)
        elif how == "long":
            self.serve(data + b"more")
        elif how == "short":
            if self.headers.get("Range"):
                self.serve(data)
            else:
                self.reply(200, data, [("Content-Length", str(len(data) + 100))], len(data))
        elif how == "chunked":
            self.note(200)
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
        elif how == "moved":
            self.reply(302, b"", [("Location", f"/ok/{name}")])
        elif how == "drip":
            self.note(200)
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            for at in range(0, len(data), 1000):
                self.wfile.write(data[at:at + 1000])
                self.wfile.flush()
                time.sleep(0.02)
        else:
            self.serve(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that went away is no error here."""


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
