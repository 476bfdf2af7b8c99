"""sparkx and huggingface_hub share one cache: what one has fetched, the other finds, file by file and link by link. So do
sparkx and ModelScope's library.

All fetch from hub_server (tests/oracle/hub_server.cc), which lies beside the binary that $SPARKX names; once through
TLS, with a certificate that sparkx must not trust until it is told to.
"""
import hashlib
import os
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors"]

failed = passed = 0


def check(name, condition, found=""):
    global failed, passed
    passed, failed = (passed + 1, failed) if condition else (passed, failed + 1)
    if not condition:
        print(f"FAILED {name}: {found}")


def tree(cache):
    """Every file of the repositories in a cache with its content, every link with where it leads; no notes of Python's own."""
    entries = {}
    for path in sorted(pathlib.Path(cache).rglob("*")):
        name = path.relative_to(cache)
        if name.parts[0] in (".locks", "CACHEDIR.TAG") or "trees" in name.parts or ".no_exist" in name.parts:
            continue
        if path.is_symlink():
            entries[str(name)] = "-> " + os.readlink(path)
        elif path.is_file():
            entries[str(name)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return entries


def pipe(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def encrypted(certificate, key, port):
    """Listens with TLS and passes everything on to a local port; gives its own port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            plain, _ = listener.accept()
            try:
                outside = context.wrap_socket(plain, server_side=True)
            except OSError:  # the client does not trust us
                continue
            inside = socket.create_connection(("127.0.0.1", port))
            for ends in ((outside, inside), (inside, outside)):
                threading.Thread(target=pipe, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def main():
    binary = pathlib.Path(os.environ.get("SPARKX", ROOT / "build/release/sparkx")).resolve()
    server = next(p for p in (binary.parent / "tests/hub_server", ROOT / "build/release/tests/hub_server") if p.exists())
    work = pathlib.Path(tempfile.mkdtemp())
    repo = work / "served/owner/mini"
    shutil.copytree(ROOT / "models/mini", repo, ignore=shutil.ignore_patterns("train"))
    (repo / "run.py").write_text("import os")
    (repo / "pytorch_model.bin").write_bytes(b"PK")
    quants = work / "served/owner/quants"
    (quants / "Q8_0").mkdir(parents=True)
    for name in ("m-Q4_K_M.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf"):
        (quants / name).write_bytes(random.Random(name).randbytes(300_000))

    with subprocess.Popen([server, work / "served"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hub:
        url = hub.stdout.readline().strip()
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and "proxy" not in k.lower() and k != "CURL_CA_BUNDLE"}
        clean |= {"HF_ENDPOINT": url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HOME": str(work)}

        def sparkx(home, *arguments, **more):
            return subprocess.run([binary, *arguments], env=clean | {"HF_HOME": str(work / home)} | more, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def python(home, code, **more):
            return subprocess.run([sys.executable, "-c", "from huggingface_hub import *\n" + code], text=True,
                                  env=clean | {"HF_HOME": str(work / home)} | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        # The same files, fetched by either, make the same cache.
        ours = sparkx("ours", "pull", "owner/mini")
        patterns = "allow_patterns=" + repr(NEEDED)
        theirs = python("theirs", f"print(snapshot_download('owner/mini', {patterns}))")
        check("both fetch", ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr)
        a, b = tree(work / "ours/hub"), tree(work / "theirs/hub")
        check("one layout", a == b and len(a) == 2 * len(NEEDED) + 1, f"\n  sparkx {a}\n  Python {b}")

        # Each finds, without any hub, what the other has fetched.
        offline = {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
        found = python("ours", f"print(snapshot_download('owner/mini', {patterns}))", **offline)
        check("Python finds what sparkx fetched", found.stdout == ours.stdout, found.stdout + found.stderr)
        found = python("ours", "print(hf_hub_download('owner/mini', 'config.json'))", **offline)
        check("Python finds one file", found.stdout.strip() == ours.stdout.strip() + "/config.json", found.stderr)
        found = sparkx("theirs", "pull", "owner/mini", **offline)
        check("sparkx finds what Python fetched", found.stdout == theirs.stdout, found.stdout + found.stderr)
        found = sparkx("theirs", "tokenize", "-m", "owner/mini", "53", **offline)
        check("and uses it", found.returncode == 0 and found.stdout.strip(), found.stderr)

        # GGUF files, in a folder and in parts.
        pulled = sparkx("theirs", "pull", "owner/quants:q8_0")
        check("all parts", pulled.stdout.endswith("/Q8_0/m-Q8_0-00001-of-00002.gguf\n"), pulled.stderr)
        code = "print(hf_hub_download('owner/quants', 'Q8_0/m-Q8_0-00002-of-00002.gguf'))"
        found = python("theirs", code, **offline)
        check("Python finds a part", pathlib.Path(found.stdout.strip() or "/x").is_file(), found.stderr)
        found = python("theirs", "print(hf_hub_download('owner/quants', 'm-Q4_K_M.gguf'))")
        again = sparkx("theirs", "pull", "owner/quants:Q4_K_M", **offline)
        check("sparkx finds a file of Python's", again.stdout == found.stdout != "", again.stderr + found.stderr)

        # ModelScope's library has plain folders, and no promise of locks.
        modelscope = {"MODELSCOPE_ENDPOINT": url, "MODELSCOPE_CACHE": str(work / "modelscope")}
        nowhere = modelscope | {"MODELSCOPE_ENDPOINT": "http://127.0.0.1:9"}
        library = "from modelscope_hub.compat import *\nprint(snapshot_download('owner/mini', {}))"
        ours = sparkx("ours", "pull", "owner/mini", "--source", "modelscope", **modelscope)
        folder = pathlib.Path(ours.stdout.strip() or "/x")
        check("ModelScope", ours.returncode == 0 and sorted(NEEDED) == sorted(os.listdir(folder)), ours.stderr)
        found = python("ours", library.format("local_files_only=True"), **nowhere)
        check("its library finds what sparkx fetched", found.stdout == ours.stdout, found.stdout + found.stderr)
        fetched = {name: (folder / name).read_bytes() for name in NEEDED}
        shutil.rmtree(work / "modelscope")
        theirs = python("ours", library.format(patterns), **modelscope)
        check("it fetches to the same place", theirs.stdout == ours.stdout, theirs.stdout + theirs.stderr)
        check("the same files", {name: (folder / name).read_bytes() for name in NEEDED} == fetched)
        found = sparkx("ours", "tokenize", "-m", "modelscope:owner/mini", "--offline", "53", **nowhere)
        check("sparkx uses what it fetched", found.returncode == 0 and found.stdout.strip(), found.stderr)
        again = sparkx("ours", "pull", "modelscope:owner/mini", **modelscope)
        check("and has nothing to fetch", again.stdout == ours.stdout and "fetching" not in again.stderr, again.stderr)
        listed = sparkx("ours", "models", "list", **nowhere)
        check("lists it", "modelscope:owner/mini" in listed.stdout, listed.stdout + listed.stderr)

        # Whatever is encrypted stays so, and only with somebody we trust.
        certificate, key = work / "certificate.pem", work / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, stderr=subprocess.DEVNULL)
        tls = {"HF_ENDPOINT": f"https://127.0.0.1:{encrypted(certificate, key, int(url.rpartition(':')[2]))}"}
        refused = sparkx("tls", "pull", "owner/mini", **tls)
        check("a certificate of nobody", refused.returncode == 1 and "certificate" in refused.stderr, refused.stderr)
        trusted = tls | {"SSL_CERT_FILE": str(certificate)}
        small = sparkx("tls", "pull", "owner/mini", "--file", "*.json", **trusted)
        check("one that is trusted", small.returncode == 0, small.stderr)
        refused = sparkx("tls", "pull", "owner/mini", **trusted)
        check("no way back to http", refused.returncode == 1 and "which is not encrypted" in refused.stderr, refused.stderr)

        # Python's own view of it all, and ours.
        names = python("theirs", "print(*sorted(r.repo_id for r in scan_cache_dir().repos))")
        check("Python's own look at the cache", names.stdout.strip() == "owner/mini owner/quants", names.stdout + names.stderr)
        warnings = python("theirs", "print(len(scan_cache_dir().warnings))")
        check("… finds nothing wrong", warnings.stdout.strip() == "0", warnings.stdout + warnings.stderr)
        check("every hash is right", sparkx("theirs", "models", "verify").returncode == 0)
        listed = sparkx("theirs", "models", "list")
        check("the list", listed.stdout.count("\n") == 3, listed.stdout)
        removed = sparkx("theirs", "models", "rm", "owner/mini", "--yes")
        names = python("theirs", "print(*sorted(r.repo_id for r in scan_cache_dir().repos))")
        check("removed for Python too", removed.returncode == 0 and names.stdout.strip() == "owner/quants", names.stdout)
        hub.stdin.close()
    shutil.rmtree(work)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
