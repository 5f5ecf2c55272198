"""A guest as a process: what it describes, gets and answers is what the program knows of it."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SDK = Path(__file__).parents[1]

GUEST = """
import json
import windlass
from windlass import Enqueue, Index, Request, Watch, fleet, http
from windlass.operations import Create, Delete, Get, List

MAPS = "v1/ConfigMap"

class Guest(windlass.Reconciler, windlass.Mapper):
    def describe(self):
        watches = [Watch(MAPS, labels="asks", changes=["labels"]), Watch("v1/Secret", Enqueue.MAPPED, metadata_only=True)]
        return windlass.Description("asks", watches=watches, indexes=[Index(MAPS, "of", "data.of")])

    def map(self, cluster, kind, objects):
        assert str(kind) == "v1/Secret" and "data" not in objects[0]
        yield Request(cluster.name, windlass.Key.of("default/mapped"))

    def reconcile(self, request, cluster):
        answer = getattr(self, request.name)(request, cluster)
        with open("done", "a") as done:
            print(request, file=done)
        return answer

    def mapped(self, request, cluster):
        assert cluster.get(MAPS, request.key) is None
        return windlass.requeue_after(3600)

    def fails(self, request, cluster):
        raise windlass.Terminal("half a \\ud83d character")

    def waits(self, request, cluster):
        raise windlass.NotReady("waits", 3600)

    def calls(self, request, cluster):
        asking = cluster.get(MAPS, request.key)
        cluster.event(asking, "Asked", "it asks", warning=True)
        windlass.log.warn("asked \\ud83d", at=windlass.timestamp(windlass.now()), **windlass.config())
        part = windlass.new_object(MAPS, "default/part")
        part["data"] = {"of": "calls"}
        windlass.set_controller(part, asking)
        assert cluster.ensure(part).effect == "created"
        assert [each["metadata"]["name"] for each in cluster.list_all(MAPS, index=("of", "calls"))] == ["part"]
        operations = [Get(MAPS, "default/none"), Create(windlass.new_object(MAPS, request.key)), Delete(MAPS, "default/part"), List(MAPS, labels="asks")]
        absent, exists, deleted, page = cluster.batch(operations, return_errors=True)
        assert absent is None and isinstance(exists, windlass.AlreadyExists) and deleted is None, exists
        assert "calls" in [each["metadata"]["name"] for each in page]
        assert [each.name for each in fleet.clusters()] == ["alpha", "beta"]
        with fleet.open("beta") as beta:
            assert beta.name == "beta" and beta.list(MAPS, labels="asks").items == []
        try:
            beta.get(MAPS, "default/a")
            raise AssertionError("it is closed")
        except RuntimeError:
            pass
        assert fleet.batch([("beta", Get(MAPS, "default/a"))]) == [None]
        try:
            cluster.delete("v1/Secret", "default/s")
            raise AssertionError("no rule grants it")
        except windlass.Denied as error:
            assert error.http_status == 0 and "secrets" in error.message, error
        try:
            http.post("https://a.example.com/", json={"a": "ü"})
            raise AssertionError("no rule allows it")
        except windlass.Denied as error:
            assert "a.example.com" in error.message, error
"""

PROJECT = '[tool.windlass]\nworld = "mapped-fleet-reconcile"\n'

CONFIGURATION = """
apiVersion: windlass.dev/v1alpha1
kind: Provider
metadata: {name: fleet}
spec:
  kubeconfigFiles: {paths: [./clusters]}
---
apiVersion: windlass.dev/v1alpha1
kind: Reconciler
metadata: {name: asks}
spec:
  guest: {path: .}
  config: {color: red}
  rules:
    - {apiGroups: [""], resources: [configmaps], verbs: ["*"], namespaces: ["*"], clusters: {names: ["*"]}}
    - {apiGroups: [""], resources: [secrets], verbs: [get, list, watch], namespaces: ["*"]}
"""

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\ndata: {a: YQ==}\n"


def asking(name: str) -> str:
    return f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default, labels: {{asks: ""}}}}\n'


class Native(unittest.TestCase):
    def test_the_program_calls_the_process(self) -> None:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            files = {
                "guest.py": GUEST,
                "pyproject.toml": PROJECT,
                "windlass.yaml": CONFIGURATION,
                "seed/alpha/all.yaml": "---\n".join([SECRET, asking("calls"), asking("fails"), asking("waits")]),
                "seed/beta/namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n",
            }
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
            printed = self.run_in(folder)
            done = sorted((folder / "done").read_text().split())
        self.assertEqual(done, ["cluster://alpha/default/calls", "cluster://alpha/default/mapped"], printed)
        lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        errors = {line["name"]: line["error"] for line in lines if line.get("message") == "reconcile finished"}
        self.assertEqual(errors, {"fails": "half a \ufffd character"}, printed)
        [logged] = [line for line in lines if line.get("message") == "asked \ufffd"]
        self.assertEqual((logged["level"], logged["fields"]["color"]), ("WARN", "red"))

    def run_in(self, folder: Path) -> str:
        """Runs the program and the process until nothing is left to do. Returns what the program printed."""
        program = os.environ.get("WINDLASS_BIN") or "windlass"
        command = [program, "dev", "--native", "asks", "--exit-when-idle", "--admin", "127.0.0.1:0", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as dev:
            self.addCleanup(dev.kill)
            deadline = time.monotonic() + 30
            while not (folder / ".windlass/native").exists() and dev.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            guest = [sys.executable, "-m", "windlass.native"]
            environment = os.environ | {"PYTHONPATH": str(SDK)}
            with subprocess.Popen(guest, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
                printed: str = dev.communicate(timeout=30)[1]
                told = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 0, told)
        self.assertIn("windlass dev has ended", told)
        return printed

    def test_without_the_program_the_process_says_what_to_start(self) -> None:
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / "guest.py").write_text(GUEST)
            environment = os.environ | {"PYTHONPATH": str(SDK)}
            command = [sys.executable, "-m", "windlass.native"]
            ended = subprocess.run(command, cwd=made, env=environment, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("start windlass dev --native RECONCILER first", ended.stderr)
