"""Signatures of what stands around an engine: ports, files, shared memory, the container engine, signals."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Kind, Signature, sig

_PORT: Final = "stop what holds the port (an older boot?), wait ten seconds, or use another port"
_GPU: Final = "install or configure the NVIDIA container toolkit on that node (`nvidia-ctk runtime configure`), then restart docker"

AROUND: Final[tuple[Signature, ...]] = (
    sig("port_in_use", "failed to listen on any local network address", r"failed to listen on any local network address(?:[^\n]{0,200}?port: (?P<port>\d{1,5}))?",
        "The port of the head's store is taken ({port}).", _PORT, weight=90, stage="rendezvous"),
    sig("port_in_use", ("port is already allocated", "ports are not available"), r"Bind for \S{1,60}:(?P<port>\d{1,5}) failed: port is already allocated|ports are not available: exposing port[^\n]{0,120}",
        "The port is taken on that node.", _PORT, weight=90, stage="container"),
    sig("port_in_use", ("address already in use", "Address already in use", "EADDRINUSE", "Port already in use", "is already in use by process"), r"[aA]ddress already in use|EADDRINUSE|[Pp]ort (?P<port>\d{1,5}) is already in use",
        "A port that the engine needs is taken.", _PORT, weight=86),
    # Docker then pulls it: a failure is what follows, or that nothing does.
    sig("image_missing", "Unable to find image", r"Unable to find image '(?P<who>[^'\n]{1,200})' locally",
        "The image {who} is not on that node.", "load or pull the image there (`docker save | ssh … docker load`), and compare image ids on all nodes", weight=84, stage="image"),
    sig("image_missing", ("Downloaded newer image for", "Image is up to date for"), r"Status: (?:Downloaded newer image|Image is up to date) for (?P<who>\S{1,200})",
        "The image was pulled.", "load or pull the image there", kind=Kind.RECOVERED),
    sig("image_missing", ("No such image", "pull access denied", "manifest unknown", "image not known", "not found: manifest", "failed to resolve reference", "repository does not exist"), r"No such image: (?P<image2>\S{1,200})|pull access denied for (?P<image3>\S{1,160})|manifest unknown|image not known|failed to resolve reference \"(?P<image4>[^\"\n]{1,200})\"|manifest for \S{1,200} not found",
        "The image is not on that node.", "load or pull the image there (`docker save | ssh … docker load`), and compare image ids on all nodes", weight=92, stage="image"),
    sig("no_gpu_runtime", ("could not select device driver", "unknown or invalid runtime name", "nvidia-container-cli", "failed to discover GPU", "unresolvable CDI devices", "failed to inject CDI"), r"could not select device driver \"?(?P<driver>[^\"\n]{0,20})\"? with capabilities: \[\[gpu\]\]|unknown or invalid runtime name: nvidia|nvidia-container-cli: [^\n]{1,160}|unresolvable CDI devices[^\n]{0,80}",
        "The container engine cannot give the container its GPU.", _GPU, weight=92, stage="container"),
    sig("docker_permission", ("permission denied while trying to connect", "connect: permission denied"), r"permission denied while trying to connect to the (?:Docker daemon socket|docker API)|dial unix \S{1,80}: connect: permission denied",
        "The user may not talk to the container engine on that node.", "add the user to the docker group there (and log in anew), or let the console use sudo", weight=92, stage="container"),
    sig("docker_permission", ("Cannot connect to the Docker daemon", "Is the docker daemon running", "docker: command not found", "docker: not found"), "",
        "The container engine does not answer on that node.", "start it there (`systemctl start docker`), and see its journal", weight=90, stage="container"),
    sig("name_in_use", ("is already in use by container", "already in use. You have to remove"), r"The container name \"?/?(?P<name>[^\"\s]{1,128})\"? is already in use|name is already in use",
        "A container of that name is left over on that node.", "stop and remove it (`nightdeck stop --all`), or launch under another attempt number", weight=92, stage="container"),
    sig("mount_source_missing", ("bind source path does not exist", "mount a directory onto a file", "not a directory: unknown", "invalid mount config", "error mounting"), r"bind source path does not exist: (?P<path>\S{1,200})|Are you trying to mount a directory onto a file|not a directory: unknown|invalid mount config for type \"bind\"[^\n]{0,160}|error mounting \"(?P<path2>[^\"\n]{1,200})\"",
        "What is to be mounted is not on that node.", "create or sync the path on that node, or correct the mount in the recipe", weight=90, stage="container"),
    sig("container_refused", ("executable file not found in", "unable to start container process"), r"exec: \"(?P<program>[^\"\n]{1,120})\": (?:executable file not found in \$PATH|stat [^\n]{1,120}: no such file or directory)",
        "The image has no program {program}.", "correct the command or the entrypoint in the recipe, or use another image", weight=88, stage="container"),
    sig("container_refused", ("exec format error", "Exec format error", "cannot execute binary file"), r"[eE]xec format error|cannot execute binary file",
        "The container's first program cannot run on this node: it is built for another processor, or it is no program.", "take an image for this node's processor (DGX Spark: linux/arm64), and look at the recipe's entrypoint", weight=86, stage="container"),
    # What `docker run` itself prints: it is over then. A daemon refuses many another thing and nothing ends.
    sig("container_refused", ("docker: Error response from daemon", "Error response from daemon: failed to ", "OCI runtime create failed"), r"(?:docker: Error response from daemon|Error response from daemon): (?:[^\n]{0,160}OCI runtime create failed: )?(?P<why>[^\n]{1,200})|OCI runtime create failed: (?P<why2>[^\n]{1,200})",
        "The container engine refused to start the container: {why}.", "correct the container's options in the recipe or the node's settings, as its words say", weight=46, stage="container", alone=True),
    sig("container_refused", ("error setting rlimit", "operation not permitted: unknown", "rlimits", "error during container init", "OCI runtime create failed", "Error response from daemon", "invalid reference format", "unknown flag", "invalid argument", "shorthand flag"), r"error setting rlimits?[^\n]{0,160}|OCI runtime create failed: (?P<why>[^\n]{1,200})|Error response from daemon: (?P<why2>[^\n]{1,200})|docker: invalid reference format|docker: invalid argument [^\n]{1,120}|unknown flag: (?P<why3>\S{1,60})|unknown shorthand flag[^\n]{1,80}",
        "The container engine refused to start the container.", "read its words; correct the container's options in the recipe or the node's settings", weight=45, stage="container"),
    sig("stale_mount", ("Stale file handle", "Errno 116", "ESTALE", "Transport endpoint is not connected: '"), r"Stale file handle|\[Errno 116\]|ESTALE",
        "A network mount on that node has gone stale.", "remount it there (`umount -l`, `mount`), and start anew", weight=90),
    sig("stale_mount", ("Bus error", "SIGBUS", "Errno 5", "Remote I/O error", "Input/output error", "Errno 121"), r"(?<!shm)Bus error(?! is often)|\[Errno 5\] Input/output error|\[Errno 121\] Remote I/O error|Fatal Python error: Bus error|SIGBUS",
        "Reading a mapped file failed under the process: a network mount went away, or a file was cut short.", "check the mount and the sizes of the shards on that node; a full /dev/shm looks the same", weight=72),
    sig("shm_full", ("No space left on device", "shm", "/dev/shm", "SemLock", "shared memory"), r"(?:shm_open|/dev/shm|psm_|SemLock|sem_open|semaphore|shared_memory|SharedMemory|torch_shm|nccl-\w{1,20}|NCCL WARN)[^\n]{0,200}No space left on device|No space left on device[^\n]{0,200}(?:/dev/shm|shm)|unable to (?:open|write to|mmap|allocate) shared memory[^\n]{0,120}|insufficient shared memory \(shm\)|Error while creating shared memory segment|posix_fallocate failed : No space left",
        "/dev/shm is full on that node.", "remove what older boots left in /dev/shm (with --ipc host it is the host's), or give --shm-size", weight=91),
    sig("disk_full", ("no space left on device", "No space left on device", "Errno 28", "ENOSPC", "Disk quota exceeded", "os error 28"), r"[nN]o space left on device|\[Errno 28\]|ENOSPC|os error 28|Disk quota exceeded",
        "A disk is full on that node.", "`df -h` there; prune old images, caches and logs", weight=80),
    sig("ipc_removed", ("attaching to shared memory segment", "psm_", "shm_open", "sem_", "/dev/shm", "Errno 22", "Errno 43", "Identifier removed"), r"Error while attaching to shared memory segment|FileNotFoundError: \[Errno 2\] No such file or directory: '?/(?:dev/shm/)?(?:psm_|sem\.|mp-|nccl)[\w.-]{0,60}|\[Errno 43\] Identifier removed|shm_open[^\n]{0,80}No such file or directory",
        "Shared memory or a semaphore vanished under the process: systemd's RemoveIPC clears them when the user logs out.", "set RemoveIPC=no in /etc/systemd/logind.conf, or `loginctl enable-linger` for that user", weight=82),
    sig("killed_from_outside", ("Received signal 15", "received signal 15", "SIGTERM", "signal 15", "SIGINT", "Got SIGTERM", "SignalException", "SIGHUP"), r"[Rr]eceived (?:signal 15|SIGTERM|SIGINT|SIGHUP)|Received (?P<n>15|2|1) death signal|SignalException: Process \d{1,10} got signal: (?P<sig>\d{1,3})|trigger received signal=(?P<what>SIG\w{1,6})",
        "The process was asked to end by a signal.", "find who or what sent it: a stop, a script, a lost SSH session, earlyoom", weight=42),
    sig("disk_full", ("a password is required",), r"sudo: a (?:password|terminal) is required",
        "sudo asks for a password on that node: dropping the page cache never happened.", "allow that command in sudoers, or drop the cache by hand", kind=Kind.HINT, weight=12),
    sig("docker_permission", ("Permission denied", "Errno 13", "PermissionError"), r"PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^'\n]{1,200})'",
        "The engine may not open {path}.", "correct the owner or mode of that path on the node, or the container's user", weight=60),
)  # fmt: skip
