"""`python -m tests.testbed up [N]`: a bed to try things on, until ctrl+c; `clear` ends beds whose owner is gone."""

from __future__ import annotations

import argparse
import signal

from tests.testbed.bed import Bed, clear_stale


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up")
    up.add_argument("n", type=int, nargs="?", default=8)
    up.add_argument("--mem", help="memory limit of each host, such as 2500M")
    up.add_argument("--infiniband", action="store_true", help="two RoCE ports to look at")
    up.add_argument("--no-gpu", action="store_true", help="neither nvidia-smi nor the container hook")
    up.add_argument("--user", default="root", choices=("root", "operator"))
    commands.add_parser("clear")
    args = parser.parse_args()
    if args.command == "clear":
        print("cleared:", " ".join(clear_stale()) or "nothing")
        return
    with Bed.up(args.n, mem=args.mem, infiniband=args.infiniband, gpu=not args.no_gpu, user=args.user) as bed:
        bed.each(lambda host: host.put_model("deepseek-ai/DeepSeek-V4.1-Flash"))
        print(f"cluster file: {bed.cluster_toml()}")
        print(f"ssh:          ssh -F {bed.ssh_config} spark1")
        print("ctrl+c takes it down", flush=True)
        for signum in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.default_int_handler)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("taking it down")


if __name__ == "__main__":
    main()
