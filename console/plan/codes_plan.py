"""The findings of rendering, of the memory budget and of the preflight, as rows: code, severity, why, remedy."""

from __future__ import annotations

from typing import Final

from console.base.findings import Severity

INFO, WARN, BLOCK = Severity.INFO, Severity.WARN, Severity.BLOCK
Rows = tuple[tuple[str, Severity, str, str], ...]

PLAN: Final[Rows] = (
    (
        "facts-unknown",
        INFO,
        "Nothing is known of this node yet, so nothing was adapted to it.",
        "Let the console reach it first.",
    ),
    (
        "ranks-differ",
        BLOCK,
        "Ranks with different arguments deadlock without a word, some only at the first request.",
        "This is a fault of the launcher: report it with the plan.",
    ),
    (
        "fabric-unknown",
        BLOCK,
        "Ranks reach each other by this address; a name that only the console resolves is not enough.",
        "Set fabric_address for the node in the cluster file.",
    ),
    (
        "fabric-assumed",
        WARN,
        "The cluster file names no fabric address; one was taken from the node.",
        "Set fabric_address if the fast network is another one.",
    ),
    (
        "fabric-loopback",
        BLOCK,
        "A loopback address means another machine on every node: no rank would find the head.",
        "Set fabric_address to the address that the other nodes reach.",
    ),
    (
        "fabric-duplicate",
        BLOCK,
        "Two ranks with one address hang silently.",
        "Give each node its own fabric_address.",
    ),
    (
        "interface-unknown",
        WARN,
        "NCCL and Gloo choose an interface by themselves then, often the slow one.",
        "Set fabric_interface in the cluster file.",
    ),
    (
        "hcas-unknown",
        INFO,
        "NCCL looks for RDMA devices by itself then.",
        "Set hcas in the cluster file.",
    ),
    (
        "hcas-on-some",
        BLOCK,
        "RDMA on some ranks and TCP on others: the ranks cannot connect.",
        "Bring up RDMA on all nodes, or name the devices in the cluster file.",
    ),
    (
        "no-rdma",
        WARN,
        "Without RDMA NCCL goes over TCP, about ten times slower; such a boot proves nothing about speed.",
        "Check the cable, the driver and `ibdev2netdev` on the node.",
    ),
    (
        "infiniband-missing",
        BLOCK,
        "The node has no /dev/infiniband while others have: the container would not start there.",
        "Load the RDMA driver on that node.",
    ),
    (
        "infiniband-left-out",
        INFO,
        "No node has /dev/infiniband, so the container gets no such device and NCCL goes over TCP.",
        "Load the RDMA driver on the nodes, or leave it.",
    ),
    (
        "gpu-left-out",
        WARN,
        "No node has an NVIDIA GPU or its container runtime, so the container gets none.",
        "Right for a CPU engine; otherwise install driver and nvidia-container-toolkit.",
    ),
    (
        "no-gpu-runtime",
        BLOCK,
        "The node has a GPU, but its container engine cannot hand it out.",
        "Install or configure nvidia-container-toolkit on the node.",
    ),
    (
        "gpu-missing",
        BLOCK,
        "The node has no GPU while others have.",
        "Check nvidia-smi on the node, or leave the node out.",
    ),
    (
        "gpu-not-seen",
        WARN,
        "No GPU can be seen on the node: only a recipe without GPUs can run there.",
        "Check nvidia-smi on the node, or leave it: a CPU engine needs none.",
    ),
    (
        "gpus-too-few",
        BLOCK,
        "The product of the parallel sizes asks for several GPUs on each node.",
        "Lower tensor_parallel_size, or take more nodes.",
    ),
    (
        "podman-gpus",
        WARN,
        "podman hands out GPUs through a CDI specification; without one the container does not start.",
        "Run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` on the node.",
    ),
    (
        "nofile-low",
        WARN,
        "1024 and 65535 open files were too few for NCCL at eight ranks.",
        "Raise the hard limit of the container engine's service to 1048576.",
    ),
    (
        "memlock-limited",
        WARN,
        "RDMA registers memory; without an unlimited memlock it fails with 'Cannot allocate memory'.",
        "Raise memlock for the container engine's service.",
    ),
    (
        "home-unknown",
        BLOCK,
        "`~` is the home of the node's user; the container engine would take it for a folder's name.",
        "Let the console reach the node, or write the path in full.",
    ),
    (
        "env-overridden",
        INFO,
        "The recipe sets a variable that the launcher would set for each node; the recipe's value stands.",
        "Remove it from the recipe to get the node's own value.",
    ),
)

MEMORY: Final[Rows] = (
    (
        "memory-gate",
        WARN,
        "The engine ends at its start when the memory available then is less than utilisation x total.",
        "Lower --gpu-memory-utilization, set NCCL's buffers, end what else runs on the node.",
    ),
    (
        "memory-reserve",
        WARN,
        "What the engine leaves to the system is below the reserve; on unified memory a node without memory freezes "
        "and answers nothing until it is power cycled.",
        "Lower --gpu-memory-utilization.",
    ),
    (
        "memory-exhausted",
        BLOCK,
        "The engine's share, NCCL and the processes are more than the node has: it passes the gate and then freezes.",
        "Lower --gpu-memory-utilization.",
    ),
    (
        "kv-below-context",
        WARN,
        "The KV pool is predicted smaller than one request of the full context: the engine would refuse to serve.",
        "Lower --max-model-len, or raise the utilisation where memory allows.",
    ),
    (
        "kv-none",
        WARN,
        "Nothing is predicted to be left for the KV cache after the model.",
        "Raise the utilisation where memory allows, or take more nodes.",
    ),
    (
        "memory-unknown",
        INFO,
        "Total or available memory of the node is not known, so no budget can be made.",
        "Let the console reach the node.",
    ),
)

PREFLIGHT: Final[Rows] = (
    (
        "unreachable",
        BLOCK,
        "The console cannot reach the node.",
        "What SSH said stands after the node's name; `ssh NODE` by hand says the same.",
    ),
    (
        "shell-refuses",
        BLOCK,
        "The node can be reached, and its account's login shell runs no command.",
        "Give the account a shell that does (`chsh`), or name another user in the cluster file.",
    ),
    (
        "python-missing",
        BLOCK,
        "The node can be reached, and its python3 is missing or does not run: facts, telemetry and the guard need it.",
        "Install python3 3.8 or newer on the node; `ssh NODE python3 --version` must answer at once.",
    ),
    (
        "docker-permission",
        BLOCK,
        "The user may not talk to the container engine.",
        "Add the user to the docker group and log in again.",
    ),
    (
        "container-engine-missing",
        BLOCK,
        "No container engine answered on the node.",
        "Install or start it, or set container_cli in the cluster file.",
    ),
    (
        "image-missing",
        BLOCK,
        "The image is not on the node, and it is never pulled during a launch.",
        "Copy it with `nightdeck image sync`.",
    ),
    (
        "image-copied",
        INFO,
        "The launch copies the image to this node from one that has it, before anything starts.",
        'Nothing to do; `--no-sync-image`, or `[launch] sync_image = "never"`, refuses instead.',
    ),
    (
        "image-no-room",
        BLOCK,
        "An image needs its size twice while it is loaded: the copy would fill the node's disk.",
        "Free space where the container engine keeps its images (`docker image prune`).",
    ),
    (
        "image-differs",
        WARN,
        "Ids differ between nodes: another build, or the same one under another storage driver.",
        "Copy one image to all nodes with `nightdeck image sync`.",
    ),
    (
        "architecture-differs",
        BLOCK,
        "One image cannot run on different processor architectures.",
        "Leave the node out.",
    ),
    (
        "port-busy",
        BLOCK,
        "Another process listens on the port: the engine would end, or ranks would join an older boot's store.",
        "Stop what listens there, or set another port in the recipe.",
    ),
    (
        "disk-low",
        WARN,
        "Little disk is left for logs, caches and compiled kernels.",
        "Free space on the node.",
    ),
    (
        "disk-full",
        BLOCK,
        "The disk is full: containers do not start, caches cannot be written.",
        "Free space on the node.",
    ),
    (
        "driver-differs",
        WARN,
        "GPU drivers of different versions in one world are a frequent cause of NCCL faults.",
        "Bring all nodes to one version.",
    ),
    (
        "kernel-differs",
        INFO,
        "Kernels of different versions behave differently under RDMA and memory pressure.",
        "Bring all nodes to one version.",
    ),
    (
        "container-version-differs",
        INFO,
        "Container engines of different versions keep images and limits differently.",
        "Bring all nodes to one version.",
    ),
    (
        "interface-missing",
        BLOCK,
        "The interface that the cluster file names is not on the node.",
        "Correct fabric_interface.",
    ),
    (
        "interface-address",
        BLOCK,
        "The fabric address is not an address of the named interface.",
        "Correct fabric_address or fabric_interface.",
    ),
    (
        "link-down",
        BLOCK,
        "The fabric's link is down.",
        "Check cable and switch.",
    ),
    (
        "mtu-differs",
        WARN,
        "Large frames are lost between nodes of different MTU: collectives hang.",
        "Set one MTU on all nodes.",
    ),
    (
        "speed-differs",
        WARN,
        "One slow link slows all ranks.",
        "Check cable and port of the node.",
    ),
    (
        "hca-missing",
        BLOCK,
        "An RDMA device of the cluster file is not on the node.",
        "Correct hcas, or load the driver.",
    ),
    (
        "hca-inactive",
        BLOCK,
        "The RDMA port is not active: NCCL cannot use it.",
        "Check cable and link of the port.",
    ),
    (
        "clock-offset",
        WARN,
        "Times of logs of different nodes cannot be compared; a large offset can also mean a node that hardly answers.",
        "Start chrony or systemd-timesyncd on the node.",
    ),
    (
        "same-machine",
        BLOCK,
        "Two entries of the cluster file are one machine: two ranks would share its ports and its memory.",
        "Remove one of the entries.",
    ),
    (
        "recently-booted",
        INFO,
        "After a reset mounts, GIDs and clocks may not be as before.",
        "Check the model's mount and the RDMA devices.",
    ),
    (
        "gpu-differs",
        WARN,
        "Ranks on GPUs of different kinds wait for the slowest and may choose different kernels.",
        "Leave the odd node out.",
    ),
)
