"""The binary as a server on the demo model, for the tests of several folders."""

import subprocess


class Server:
    """A server on a free port, ended by SIGTERM."""

    def __init__(self, binary, arguments):
        command = [binary, "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            if line.startswith("listening on "):
                self.url = line.removeprefix("listening on ").strip()
                break
        assert self.url, f"{command} ended with {self.process.wait()}"

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0
