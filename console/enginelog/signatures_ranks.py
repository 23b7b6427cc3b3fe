"""Signatures of what goes wrong between ranks: the rendezvous, gloo, NCCL, the fabric."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Kind, Signature, sig

_VICTIM: Final = Kind.VICTIM
_SYMPTOM: Final = Kind.SYMPTOM
_FABRIC: Final = "check the link, the HCA list (NCCL_IB_HCA), the GID index, and NCCL_SOCKET_IFNAME on both nodes"
_IFNAME: Final = "set GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME and VLLM_HOST_IP for each node to its fabric interface, and open the firewall between nodes"
_PEER: Final = "look at the log and the container of the rank that went away"
_IP: Final = r"\[?(?:::ffff:)?(?P<peer>\d{1,3}(?:\.\d{1,3}){3})\]?"

RANKS: Final[tuple[Signature, ...]] = (
    sig("rendezvous_timeout", "clients joined", r"Timed out after (?P<seconds>\d{1,7}) seconds waiting for clients\. (?P<have>\d{1,6})/(?P<of>\d{1,6}) clients joined",
        "After {seconds} s only {have} of {of} ranks had come.", "find the rank that never came: its container, its log, its way to the head", kind=_SYMPTOM, weight=88, stage="rendezvous"),
    sig("rendezvous_timeout", "client socket has timed out", r"client socket has timed out after (?P<ms>\d{1,9}) ?ms while trying to connect to \((?P<host>[^,\s)]{1,100}), (?P<port>\d{1,5})\)",
        "This rank tried {ms} ms to reach the head's store at {host}:{port} and never got there.", "check that the head runs, that this is its address, and that the port is open between the nodes", kind=_SYMPTOM, weight=84, stage="rendezvous"),
    sig("rendezvous_timeout", ("client socket has failed to connect", "failed to connect to any network address"), r"client socket has failed to connect to (?:any network address of )?\(?(?P<host>[^,\s)]{1,100}), (?P<port>\d{1,5})",
        "This rank could not connect to the head's store at {host}:{port}.", "check that the head runs, that this is its address, and that the port is open between the nodes", kind=_SYMPTOM, weight=70, stage="rendezvous"),
    sig("rendezvous_timeout", ("wait timeout after", "Socket Timeout", "store->get", "Timeout waiting for key", "RendezvousTimeoutError", "RendezvousConnectionError"), r"wait timeout after (?P<ms>\d{1,9}) ?ms, keys: (?P<key>[^\n]{1,120})|store->get\('(?P<key2>[^'\n]{1,60})'\),? got error[^\n]{0,160}|Rendezvous(?:Timeout|Connection)Error",
        "A rank waited in vain for what another should have put into the head's store.", "find the rank that never came: its container, its log, its way to the head", kind=_SYMPTOM, weight=60, stage="rendezvous"),
    sig("master_addr_wrong", ("gai error", "cannot be retrieved (gai", "Name or service not known", "Temporary failure in name resolution"), r"network addresses of \((?P<host>[^,\s)]{1,100}), (?P<port>\d{1,5})\) cannot be retrieved|(?:\[c10d\]|MASTER_ADDR|master|tcp://)[^\n]{0,160}(?:Name or service not known|Temporary failure in name resolution)",
        "The head's address {host} cannot be resolved on that node.", "give --master-addr as the head's fabric address", weight=88, stage="rendezvous"),
    sig("master_addr_wrong", ("Cannot assign requested address", "Errno 99", "EADDRNOTAVAIL"), r"(?:server socket|TCPStore|\[c10d\]|bind|zmq)[^\n]{0,200}Cannot assign requested address|Cannot assign requested address[^\n]{0,80}(?:addr=|tcp://)|\[Errno 99\] [^\n]{0,60}[aA]ssign requested address",
        "A process was told to listen on an address that its node does not have.", "give --master-addr as an address of the head's own fabric interface, and VLLM_HOST_IP as each node's own", weight=84, stage="rendezvous"),
    sig("stale_rendezvous", ("ping failed, invalid value", "unexpected store", "failed to pass validation", "MASTER_PORT is already"), r"ping failed, invalid value returned from server|failed to pass validation",
        "A rank reached a store that is not this boot's.", "stop what is left of older boots on all nodes, wait ten seconds, and use a new --master-port", weight=80, stage="rendezvous"),
    sig("rank_args_differ", ("op.preamble.length <= op.nbytes", "op.preamble.length"), r"op\.preamble\.length <= op\.nbytes\.? ?(?P<a>\d{0,12})[^\d\n]{0,8}(?P<b>\d{0,12})",
        "Ranks sent each other messages of different sizes ({a} and {b} bytes): they were not started alike.", "compare the arguments, the image and the model's files of all ranks", weight=82),
    sig("rank_args_differ", ("Detected mismatch between collectives", "inconsistent", "Mismatch between ranks", "not consistent across"), r"Detected mismatch between collectives on ranks[^\n]{0,240}|(?:arguments?|config|shape)[^\n]{0,80}(?:inconsistent|not consistent) across ranks",
        "Ranks ran different collectives: they were not started alike.", "compare the arguments, the image and the model's files of all ranks", weight=84),
    sig("rank_args_differ", ("different across workers",), r"specs for the same layer are different across workers",
        "The ranks would keep different KV caches: they were not started alike.", "compare the arguments, the image and the model's files of all ranks", weight=84, stage="kv cache"),
    sig("rank_args_differ", ("Mismatched collective detected", "Mismatched NCCL version detected", "Message truncated"), r"Mismatched (?:collective|NCCL version) detected[^\n]{0,160}|Message truncated : received (?P<a>\d{1,12}) bytes instead of (?P<b>\d{1,12})",
        "Two ranks asked NCCL for different things, or run different versions of it.", "compare image and arguments of all ranks; they must be the same", weight=86),
    sig("rank_args_differ", ("Duplicate GPU detected",), r"Duplicate GPU detected : rank (?P<a>\d{1,6}) and rank (?P<b>\d{1,6}) both on CUDA device",
        "Ranks {a} and {b} were put on one GPU.", "give each rank its own node-rank and its own GPU", weight=88, stage="nccl"),
    sig("nccl_wrong_interface", ("no socket interface found", "No interface found", "Bootstrap : no", "no interface found in the same subnet", "Unable to find address for", "Unable to resolve hostname to a (local) address", "makeDeviceForInterface", "makeDeviceForHostname", "unsupported gloo device"), r"Bootstrap : no socket interface found|[Nn]o (?:socket )?interface found[^\n]{0,120}|Unable to find address for: (?P<name>\S{1,60})|Unable to resolve hostname to a \(local\) address|makeDeviceFor(?:Interface|Hostname)\(\)[^\n]{0,120}",
        "The network interface that the recipe names is not there on that node.", _IFNAME, weight=88, stage="rendezvous"),
    sig("nccl_wrong_interface", ("127.0.0.1", "127.0.1.1"), r"(?:connectFullMesh|socketStartConnect|socketPollConnect|connect)[^\n]{0,160}127\.0\.[01]\.1[^\n]{0,120}(?:refused|failed)|remote=\[127\.0\.[01]\.1\]:\d{1,5}[^\n]{0,120}(?:refused|failed)",
        "A rank gave its peers a loopback address.", _IFNAME + "; the node's name must not resolve to 127.0.1.1", weight=85, stage="rendezvous"),
    sig("gloo_mesh_incomplete", "connectFullMesh failed", r"Gloo connectFullMesh failed with (?P<why>[^\n]{1,240})",
        "Ranks could not all connect to each other over gloo.", _IFNAME, kind=_SYMPTOM, weight=62, stage="rendezvous"),
    sig("gloo_mesh_incomplete", ("connectFullMesh", "SO_ERROR: Connection refused", "timed out connecting: SO_ERROR", "Connect timeout ["), r"Gloo connectFullMesh|timed out connecting: SO_ERROR[^\n]{0,120}|gloo[^\n]{0,160}(?:SO_ERROR: Connection refused|Connection timed out|No route to host)|Connect timeout \[[^\n]{0,160}",
        "Ranks could not all connect to each other over gloo.", _IFNAME, kind=_SYMPTOM, weight=60, stage="rendezvous"),
    sig("peer_exited", ("Connection closed by peer", "Connection reset by peer", "Broken pipe"), r"(?:pair\.cc|gloo)[^\n]{0,160}(?:Connection closed by peer|Connection reset by peer|Broken pipe)(?: ?" + _IP + r":\d{1,5})?|(?:Connection closed by peer|Connection reset by peer) " + _IP.replace("peer", "peer2") + r":\d{1,5}",
        "A peer closed its connection ({peer}).", _PEER, kind=_VICTIM, weight=40),
    sig("peer_exited", ("Connection closed by remote peer", "remote process exited", "ncclRemoteError", "socketProgress"), r"Connection closed by remote peer (?P<host>[\w.\-:]{1,80}?)(?:<\d{1,5}>)?(?:\s|$)|ncclRemoteError|remote process exited or there was a network error",
        "A peer went away.", _PEER, kind=_VICTIM, weight=38),
    sig("peer_exited", ("NCCL WARN", "Call to recv from"), r"NCCL WARN[^\n]{0,80}Call to (?:recv|send) from " + _IP + r"<\d{1,5}>[^\n]{0,80}failed : (?P<why>[^\n]{1,80})",
        "The connection to a peer broke ({peer}).", _PEER, kind=_VICTIM, weight=40),
    sig("peer_exited", ("Rank", "ranks failed", "Application timeout caused pair closure"), r"Application timeout caused pair closure|Some NCCL operations have failed or timed out|Rank (?P<rank>\d{1,6}) is (?:dead|not responding)",
        "A peer stopped answering.", _PEER, kind=_VICTIM, weight=36),
    sig("peer_exited", ("monitoredBarrier", "other ranks that didn't finish loading"), r"[Rr]ank \d{1,6} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank (?P<rank>\d{1,6})|[Rr]anks? [\d, ]{1,80} failed to pass monitoredBarrier|there are other ranks that didn't finish loading",
        "Another rank did not come this far.", "look at the ranks that are not complaining: the first error in time is theirs", kind=_VICTIM, weight=41),
    sig("head_gone", ("should dump", "recvValue failed", "sendBytes failed", "TCPStore server has shut down", "recvValueWithTimeout failed", "recvBytes", "Failed to recv, got 0 bytes"), r"Failed to check the \"should dump\" flag|\[c10d\] (?:recvValue|recvValueWithTimeout|sendBytes|recvBytes|sendValue)\w{0,20} failed on [^\n]{0,160}?remote=" + _IP + r"[^\n]{0,120}|(?:recvValue|sendBytes)\w{0,20} failed|Failed to recv, got 0 bytes|TCPStore server has shut down",
        "The head's store is gone.", "look at the head's log and container: it ended first", kind=_VICTIM, weight=34),
    sig("head_gone", ("Parent process exited", "parent process died", "Parent process is dead"), r"Parent process exited, terminating worker|parent process died|Parent process is dead",
        "This worker's parent process ended.", "look at what ended the parent", kind=_VICTIM, weight=20),
    sig("nccl_collective_timeout", ("collective operation timeout", "Watchdog caught"), r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d{1,12}), OpType=(?P<op>\w{1,40})[^\n]{0,200}?ran for (?P<ms>\d{1,12}) milliseconds",
        "The collective {op} did not end within {ms} ms: a rank is missing in it.", "find the rank that is behind: its log stops earlier, or its numbers differ", kind=_SYMPTOM, weight=66),
    sig("nccl_collective_timeout", ("collective operation timeout", "Watchdog caught", "collective timeout", "WorkNCCL("), "",
        "A collective did not end in time: a rank is missing in it.", "find the rank that is behind: its log stops earlier, or its numbers differ", kind=_SYMPTOM, weight=60),
    sig("collective_hang", ("Timed out waiting", "unbound_buffer"), r"Timed out waiting (?P<ms>\d{1,10})ms for (?:recv|send) operation to complete",
        "A gloo operation waited {ms} ms for a rank that did not take part.", "find the rank that is behind: frozen, cut off, or started with other arguments", kind=_SYMPTOM, weight=55),
    sig("collective_hang", ("RPC call to", "timed out"), r"RPC call to (?P<what>\w{1,60}) timed out",
        "A worker did not answer {what} within the engine's limit.", "find the rank that is behind: frozen, cut off, short of memory, or started with other arguments", kind=_SYMPTOM, weight=45),
    sig("rdma_error", ("ibv_reg_mr",), r"ibv_reg_mr\w{0,12} failed with error Cannot allocate memory",
        "The fabric adapter could not lock memory.", "start with --ulimit memlock=-1; if it is set, see the kernel: 7.0.0-1019 counts CMA wrongly (CmaFree > CmaTotal): take 6.17.0-1032 or kho=off", weight=88, stage="nccl"),
    sig("rdma_error", ("ibv_modify_qp", "ibv_create_qp", "ibv_create_cq", "ibv_poll_cq", "ibv_open_device", "ibv_alloc_pd", "ibv_query"), r"(?P<call>ibv_\w{1,30}) failed(?: with(?: error)? ?(?P<why>[^\n]{0,80}))?",
        "The fabric refused {call} ({why}).", _FABRIC, weight=86, stage="nccl"),
    sig("rdma_error", ("Got completion", "wc.status", "vendor err", "NET/IB : Got async event", "transport retry counter exceeded"), r"Got completion (?:from peer (?P<host>[\w.\-:]{1,80})(?:<\d{1,5}>)? )?with (?:status=|error )(?P<status>\d{1,3})|NET/IB[^\n]{0,60}Got async event : (?P<event>[^\n]{1,60})|transport retry counter exceeded",
        "An RDMA transfer failed.", _FABRIC, kind=_SYMPTOM, weight=80, stage="nccl"),
    sig("rdma_error", ("async error event", "async fatal event"), r"NET/IB ?: (?P<port>[\w.\-]{1,40}:\d{1,3}) (?:Got async error event: (?P<event>port error)|async fatal event[^:\n]{0,80}: (?P<event2>[^\n]{1,80}))",
        "The fabric adapter reported trouble on {port}: {event}.", _FABRIC, kind=_SYMPTOM, weight=82, stage="nccl"),
    sig("rdma_error", ("No eligible GID", "Unable to open device", "libibverbs", "No device found"), r"NET/IB : Unable to open device[^\n]{0,80}|[Nn]o (?:eligible|valid) GID[^\n]{0,80}|NET/IB : No device found",
        "NCCL found no usable RDMA device.", _FABRIC + "; the container needs --device /dev/infiniband", kind=Kind.HINT, weight=40, stage="nccl"),
    sig("rdma_error", ("Using network Socket", "NET/Socket"), r"Using network Socket|NET/Socket : Using|via NET/Socket",
        "NCCL talks over TCP, not over RDMA: about ten times slower.", _FABRIC, kind=Kind.HINT, weight=15, stage="nccl"),
    sig("too_many_open_files", ("Too many open files", "Errno 24", "EMFILE"), r"\[Errno 24\]|Too many open files",
        "The process ran out of file descriptors.", "start with --ulimit nofile=1048576:1048576", weight=84),
    sig("ray_resources_missing", ("No available node types can fulfill", "placement group", "Ray does not allocate any GPUs", "Current node has no GPU available", "resource request", "Total available GPUs", "number of required GPUs"), r"No available node types can fulfill resource request[^\n]{0,160}|Cannot provide a placement group[^\n]{0,200}|Ray does not allocate any GPUs[^\n]{0,80}|Current node has no GPU available[^\n]{0,120}|number of required GPUs exceeds the total number of available GPUs|cannot be scheduled right now",
        "Ray has not the GPUs that the engine asks for.", "see `ray status`: every node must have joined, with its GPU free", weight=82),
    sig("rdma_error", ("unhandled system error", "ncclSystemError"), r"NCCL error[^\n]{0,160}unhandled system error|ncclSystemError",
        "NCCL failed on a call to the system, and does not say which.", "read the NCCL WARN lines above it (NCCL_DEBUG=INFO); then GID index, HCA list, ulimits, peers", kind=_SYMPTOM, weight=28, stage="nccl"),
)  # fmt: skip
