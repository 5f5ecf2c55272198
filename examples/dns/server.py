#!/usr/bin/env python3
"""An API for records of DNS, as the example's guest finds it. Usage: server.py [PORT]

GET, PUT and DELETE of /v1/zones/ZONE/records/NAME. It wants the token "example", and takes ten calls a second.
"""
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CALLS_PER_SECOND = 10
records = {}
calls = []


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def refused(self):
        if self.headers["Authorization"] != "Bearer example":
            return self.answer(401, {"error": "the token is wrong"})
        now = time.monotonic()
        calls[:] = [call for call in calls if call > now - 1]
        if len(calls) >= CALLS_PER_SECOND:
            return self.answer(429, {"error": "too many calls"}, {"Retry-After": "1"})
        calls.append(now)
        parts = self.path.split("/")
        if len(parts) != 6 or parts[1:3] != ["v1", "zones"] or parts[4] != "records":
            return self.answer(404, {"error": "there is no such path"})
        return False

    def answer(self, status, value=None, headers={}):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True

    def do_GET(self):
        if self.refused():
            return
        if self.path in records:
            self.answer(200, records[self.path])
        else:
            self.answer(404, {"error": "there is no such record"})

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.refused():
            return
        record = json.loads(body)
        if not isinstance(record.get("address"), str):
            self.answer(422, {"error": "a record has an address"})
            return
        records[self.path] = record
        self.answer(200, record)

    def do_DELETE(self):
        if self.refused():
            return
        known = records.pop(self.path, None)
        self.answer(200 if known else 404, {})


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8053
    server = ThreadingHTTPServer(("127.0.0.1", port), Api)
    print(f"listening on http://localhost:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
