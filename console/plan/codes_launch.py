"""The findings of the preflight's look at a node's state before a launch, as rows: code, severity, why, remedy."""

from __future__ import annotations

from typing import Final

from console.plan.codes_plan import BLOCK, INFO, WARN, Rows

LAUNCH: Final[Rows] = (
    (
        "mount-missing",
        BLOCK,
        "The container engine refuses a mount whose source is not there; after a reset this is often a network mount.",
        "Mount it, or correct the path in the recipe.",
    ),
    (
        "mount-hung",
        BLOCK,
        "A network mount that does not answer freezes every process that touches it; such a process cannot be killed.",
        "Bring its server back, or `umount -f -l` it and mount it again.",
    ),
    (
        "mount-unreadable",
        BLOCK,
        "The mount's source cannot be looked at: a stale file handle, or no permission.",
        "Mount it again, or correct its permissions.",
    ),
    (
        "mount-kind",
        BLOCK,
        "A file mounted over a folder, or a folder over a file, keeps the container from starting.",
        "Correct the path in the recipe.",
    ),
    (
        "mount-not-writable",
        BLOCK,
        "The folder has to be made before the start, and the node's user may not make it.",
        "Make the folder by hand, or correct the permissions of its parent.",
    ),
    (
        "folder-made",
        INFO,
        "The folder is not there yet and is made by the launch: a first boot compiles its kernels again.",
        "Nothing to do.",
    ),
    (
        "model-missing",
        BLOCK,
        "The engine finds no model and may not fetch it. A path blocks; a hub id warns, for an image may hold it.",
        "Put the model there, or mount the folder that has it.",
    ),
    (
        "model-download",
        WARN,
        "The model is not in this node's cache: each node would fetch all of it from the hub while the others wait.",
        "Fetch it once into the shared cache before the launch.",
    ),
    (
        "model-incomplete",
        BLOCK,
        "A shard that the index names is not there: the engine ends after minutes of loading.",
        "Finish the download, or copy the missing files.",
    ),
    (
        "model-truncated",
        BLOCK,
        "A shard is shorter than its own header says: the rank that reads it ends, the others wait for it.",
        "Copy the file again.",
    ),
    (
        "model-hung",
        BLOCK,
        "The model's files gave no answer in time: the engine would wait for them without a word.",
        "See to the mount that the model lies on.",
    ),
    (
        "model-differs",
        WARN,
        "Ranks that load different files of one model answer nonsense, or nothing.",
        "Give all nodes the same revision.",
    ),
    (
        "remove-ipc",
        WARN,
        "With --ipc host and an engine that is not root, logind deletes its semaphores and shared memory when the "
        "user's last SSH session ends, and a rank dies.",
        "`sudo loginctl enable-linger USER`, or RemoveIPC=no in /etc/systemd/logind.conf.",
    ),
    (
        "shm-full",
        BLOCK,
        "/dev/shm is full: semaphores and NCCL's buffers cannot be made, which reads like a full disk.",
        "Remove what earlier engines left in /dev/shm.",
    ),
    (
        "shm-low",
        WARN,
        "/dev/shm is small or nearly full; with --ipc host it is the host's own, whatever shm_size says.",
        "Remove what earlier engines left there, or mount it larger.",
    ),
    (
        "shm-leftovers",
        INFO,
        "Shared memory of engines that have ended is memory that no one gives back.",
        "Remove the files, once no engine runs on the node.",
    ),
    (
        "leftover-container",
        BLOCK,
        "A rank of an earlier deployment still lives: new workers can join its head's store and hang.",
        "Stop it first: `nightdeck stop`.",
    ),
    (
        "engine-running",
        BLOCK,
        "Another engine runs on the node: two of them share one memory, and the second freezes the node.",
        "End it, or leave the node out.",
    ),
    (
        "gpu-held",
        WARN,
        "Another process holds GPU memory, which on unified memory is the node's own.",
        "End it, or lower --gpu-memory-utilization.",
    ),
    (
        "watchdog",
        INFO,
        "A guard runs on the node that ends large processes when memory is short: a rank that it kills leaves no line.",
        "Look at its limits, or exclude the engine.",
    ),
    (
        "watched-elsewhere",
        INFO,
        "Another console watches this node; only one of them should launch and stop.",
        "Nothing to do, if it only watches.",
    ),
    (
        "swap-on",
        INFO,
        "Swap is on: a node whose memory runs out then freezes for half an hour instead of ending a process.",
        "`sudo swapoff -a` for the night.",
    ),
    (
        "swap-used",
        WARN,
        "The node swaps already: what it swapped comes back while weights are loaded, and the node stands still.",
        "Find what used the memory, then `sudo swapoff -a`.",
    ),
    (
        "cma-broken",
        BLOCK,
        "CmaFree above CmaTotal is the mark of a kernel fault after which RDMA cannot register memory "
        "(ibv_reg_mr_iova2: Cannot allocate memory).",
        "Boot kernel 6.17.0-1032, or 7.0.0-1019 with kho=off.",
    ),
    (
        "gid-missing",
        WARN,
        "The RDMA port has no RoCE v2 GID with an IPv4 address; GIDs go with the address and come late after a reset.",
        "Give the port's interface its address and look again.",
    ),
    (
        "gid-index-wrong",
        BLOCK,
        "NCCL_IB_GID_INDEX names a GID that is another one on this node: its queue pairs time out.",
        "Leave NCCL_IB_GID_INDEX out, so that NCCL looks it up.",
    ),
    (
        "gid-differs",
        INFO,
        "The RoCE v2 GID has another index on some nodes; harmless as long as no recipe names an index.",
        "Nothing to do.",
    ),
    (
        "fabric-route",
        BLOCK,
        "The peer's fabric address is reached through another interface: ranks would talk over the slow network, or "
        "not at all.",
        "Correct the routes, or fabric_address in the cluster file.",
    ),
    (
        "peer-silent",
        WARN,
        "A peer's fabric address answers no echo. A firewall may do that; so does a cable.",
        "Try `ping` between the two nodes.",
    ),
    (
        "path-mtu",
        BLOCK,
        "Small frames pass and large ones are lost: ranks connect, and the first large collective hangs.",
        "Set one MTU on both nodes and on the switch's ports.",
    ),
    (
        "gpu-throttled",
        WARN,
        "The driver says that it holds the GPU's clock down: this rank slows all others.",
        "Let it cool; if the reason stays, unplug the power adapter for a minute.",
    ),
    (
        "gpu-clock-low",
        WARN,
        "The GPU's clock is far below its peers', or low under load with little power: the mark of a latched clock, "
        "which a reboot does not clear.",
        "Unplug the power adapter for 30-60 s.",
    ),
    (
        "gpu-slow",
        WARN,
        "Under a few seconds of load this GPU does far less than its peers or its kind: it slows all ranks.",
        "Look at its temperature and power; unplug the power adapter for 30-60 s.",
    ),
    (
        "gpu-not-loaded",
        INFO,
        "The GPU could not be loaded for a measurement, so a latched clock would not have been seen.",
        "Look at the reason; the image needs python3 and torch.",
    ),
    (
        "image-other-id",
        INFO,
        "The same layers under another Id: the nodes keep images differently, the content is one.",
        "Nothing to do.",
    ),
    (
        "flag-unknown",
        WARN,
        "The image's own --help does not know this flag: the engine ends with a usage message.",
        "Remove it, or take an image that knows it.",
    ),
    (
        "help-unreadable",
        INFO,
        "The image's own --help could not be read, so the flags were not compared with it.",
        "Try `docker run --rm IMAGE --help` on the head.",
    ),
)
