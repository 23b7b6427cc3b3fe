/* A stand-in for `vllm serve`, as seen from outside: it takes the same arguments, prints the lines of a multi-node
 * boot, joins its peers over --master-addr/--master-port, and on rank 0 answers HTTP. No model, no GPU.
 *
 * Settings come from the environment, then from /etc/stub.env and $HF_HOME/stub.env (KEY=VALUE lines; the last wins,
 * read again each second, so that a test can change its mind while the engine runs):
 *   STUB_BOOT_S=12        seconds from the rendezvous to ready (0)
 *   STUB_FAIL=STAGE       die at config|port|rendezvous|nccl|model|weights|kv|warmup|graphs|serve, with that stage's
 *                         own error text; STUB_EXIT=CODE (1)
 *   STUB_HANG=STAGE       go silent at a stage until the setting goes away (rank 0 then waits for this rank, silently)
 *   STUB_KILL=STAGE       the worker process is killed (SIGKILL) at a stage, or at `serving`
 *   STUB_DIE=CODE         exit while serving
 *   STUB_RANK=R           the settings of failure above hold for this rank alone
 *   STUB_IGNORE_TERM=1    SIGTERM has no effect        STUB_TERM_S=N  take N seconds to end
 *   STUB_FLOOD=N          N lines a second             STUB_GARBAGE=1 binary, bad UTF-8, a line of 10 MB at boot
 *   STUB_ANSWER=empty|repeat|error|hang|SECONDS        STUB_HEALTH=503|hang
 *   STUB_THINK=1          short answers hold reasoning only
 *   STUB_PEER_LOSS=hang   after a lost worker requests hang (else: an error on the next one, then the engine ends)
 *   STUB_RDZV_S=600       how long rank 0 waits for its peers   STUB_ALONE=1  do not wait for peers at all
 */
#include "stub.h"
#include <sys/mman.h>
#include <sys/socket.h>

#define SHARDS 48

struct options opt = {"", NULL, "0.0.0.0", "127.0.0.1", 0, 1, 1, 8000, 29501, 0, 4096};
struct shared *shared;
volatile sig_atomic_t terminated, child_died;
pid_t core, worker;
int peers[MAXPEERS], npeers, arrived, api = -1, serving, store = -1;

static void boot_engine(double seconds) {
    int head = !opt.headless;
    stage("nccl", WORKER, "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote process exited or there was a network error, NCCL version 2.30.7");
    if (head) raw(PLAIN, "NCCL version 2.30.7+cuda13.3");
    info(WORKER, "pynccl.py:113", "vLLM is using nccl==2.30.7");
    wait_s(seconds * 0.05);
    info(WORKER, "parallel_state.py:2173", "rank %d in world size %d is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank %d, ETP rank %d, EP rank %d, EPLB rank N/A", opt.rank, opt.nnodes, opt.rank, opt.rank, opt.rank);
    stage("model", TP, "ValueError: Free memory on device (98.21/121.69 GiB) on startup is less than desired GPU memory utilization (0.91, 110.74 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.");
    info(TP, "model_runner.py:394", "Loading model from scratch...");
    info(TP, "weight_utils.py:865", "Filesystem type for checkpoints: NFS4. Checkpoint size: 475.25 GiB. Available RAM: 41.02 GiB.");
    for (int i = 0; i <= SHARDS; i++) {
        double each = seconds * 0.55 / SHARDS;
        if (i) wait_s(each);
        if (i == SHARDS / 2) stage("weights", TP, "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered");
        if (head) raw(TP, "Loading safetensors checkpoint shards: %3d%% Completed | %d/%d [%02d:%02d<%02d:%02d, %5.2fs/it]", 100 * i / SHARDS, i, SHARDS, (int)(each * i) / 60, (int)(each * i) % 60, (int)(each * (SHARDS - i)) / 60, (int)(each * (SHARDS - i)) % 60, each);
    }
    info(TP, "default_loader.py:430", "Loading weights took %.2f seconds", seconds * 0.55);
    info(TP, "model_runner.py:408", "Model loading took 49.56 GiB memory and %.6f seconds", seconds * 0.6);
    stage("kv", TP, "ValueError: No common block size for 64, 128.");
    wait_s(seconds * 0.1);
    info(TP, "gpu_worker.py:632", "Available KV cache memory: 9.53 GiB");
    if (head) info(CORE, "kv_cache_utils.py:2321", "GPU KV cache size: 1,011,712 tokens, Maximum concurrency for 524,288 tokens per request: 1.93x");
    stage("warmup", TP, "RuntimeError: Assertion error (/workspace/DeepGEMM/csrc/apis/attention.hpp:120): block_kv == 32 or block_kv == 64");
    info(TP, "kernel_warmup.py:124", "JIT kernel warmup starting.");
    wait_s(seconds * 0.15);
    info(TP, "kernel_warmup.py:134", "JIT kernel warmup finished in %.2fs.", seconds * 0.15);
    stage("graphs", TP, "torch.AcceleratorError: CUDA error: out of memory");
    if (head) {
        prefix(TP), bars("Capturing CUDA graphs (PIECEWISE)", 15, seconds * 0.1);
        prefix(TP), bars("Capturing CUDA graphs (FULL)", 8, seconds * 0.05);
    } else wait_s(seconds * 0.15);
    info(TP, "model_runner.py:974", "Graph capturing finished in %d secs, took 0.58 GiB", (int)(seconds * 0.15));
    if (head) info(CORE, "core.py:402", "init engine (profile, create kv cache, warmup model) took %.2f s", seconds * 0.4);
    if (!head && npeers) (void)!write(peers[0], "r", 1);
    while (head && !setting("STUB_ALONE") && arrived < opt.nnodes - 1) wait_s(0.02); /* silent, as the engine is */
    info(TP, "monitor.py:60", "Kernel JIT monitor activated: JIT compilations after this point are reported.");
}

static void parse(int argc, char **argv) {
    int i = 1;
    if (i < argc && !strcmp(argv[i], "serve")) i++;
    for (; i < argc; i++) {
        char *value = strchr(argv[i], '='), flag[128];
        if (argv[i][0] != '-') {
            if (!*opt.model) opt.model = argv[i];
            continue;
        }
        snprintf(flag, sizeof flag, "%.*s", (int)(value ? value - argv[i] : 127), argv[i]);
        if (!strcmp(flag, "--headless")) { opt.headless = 1; continue; }
        if (strstr(flag, "--no-such-flag")) {
            fprintf(stderr, "usage: vllm [-h] [-v]\n            {chat,complete,serve,launch,bench,collect-env,run-batch}\n            ...\nvllm: error: unrecognized arguments: %s\n", argv[i]);
            exit(2);
        }
        if (value) value++;
        else if (i + 1 < argc && strncmp(argv[i + 1], "--", 2)) value = argv[++i];
        else continue;
        if (!strcmp(flag, "--served-model-name")) opt.served = value;
        else if (!strcmp(flag, "--model")) opt.model = value;
        else if (!strcmp(flag, "--host")) opt.host = value;
        else if (!strcmp(flag, "--port")) opt.port = atoi(value);
        else if (!strcmp(flag, "--node-rank")) opt.rank = atoi(value);
        else if (!strcmp(flag, "--nnodes")) opt.nnodes = atoi(value);
        else if (!strcmp(flag, "--master-addr")) opt.master = value;
        else if (!strcmp(flag, "--master-port")) opt.master_port = atoi(value);
        else if (!strcmp(flag, "--max-model-len")) opt.max_len = atoi(value);
        else if (!strcmp(flag, "--tensor-parallel-size") || !strcmp(flag, "-tp")) opt.tp = atoi(value);
    }
    if (!opt.served) opt.served = opt.model;
}

/* The flags that this engine takes for its own, as `vllm serve --help=all` lists them. */
static void help(void) {
    static const char *flags[] = {"host", "port", "headless", "model", "served-model-name", "trust-remote-code", "dtype", "seed", "quantization", "kv-cache-dtype", "load-format", "safetensors-load-strategy", "distributed-executor-backend", "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "nnodes", "node-rank", "master-addr", "master-port", "gpu-memory-utilization", "max-model-len", "max-num-seqs", "max-num-batched-tokens", "block-size", "enforce-eager", "enable-prefix-caching", "attention-backend", "disable-custom-all-reduce", "compilation-config", "speculative-config", "engram-config", "tool-call-parser", "enable-auto-tool-choice", "reasoning-parser", "default-chat-template-kwargs", "limit-mm-per-prompt", "mm-processor-cache-gb", "tokenizer-mode", "chat-template", "api-key"};
    printf("usage: vllm serve [model_tag] [options]\n\noptions:\n");
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) printf("  --%s\n", flags[i]);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "--help", 6)) return help(), 0;
    char name[32], model[256], served[256], host[64], master[128];
    struct sigaction on = {.sa_handler = on_signal};
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    parse(argc, argv);
    /* the children overwrite argv with their titles */
    snprintf(model, sizeof model, "%s", opt.model), snprintf(served, sizeof served, "%s", opt.served);
    snprintf(host, sizeof host, "%s", opt.host), snprintf(master, sizeof master, "%s", opt.master);
    opt.model = model, opt.served = served, opt.host = host, opt.master = master;
    sigaction(SIGTERM, &on, NULL), sigaction(SIGINT, &on, NULL), sigaction(SIGCHLD, &on, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (!opt.headless) {
        static const char *logo[] = {"", "       █     █     █▄   ▄█", " ▄▄ ▄█ █     █     █ ▀▄▀ █  version " VERSION, "  █▄█▀ █     █     █     █  model   ", "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀", ""};
        for (int i = 0; i < 6; i++) info(API, "api_utils.py:345", "%s%s", logo[i], i == 3 ? opt.model : "");
        info(API, "api_utils.py:286", "non-default args: {'model_tag': '%s', 'host': '%s', 'model': '%s', 'max_model_len': %d, 'served_model_name': ['%s'], 'distributed_executor_backend': 'mp', 'master_addr': '%s', 'nnodes': %d, 'tensor_parallel_size': %d}", opt.model, opt.host, opt.model, opt.max_len, opt.served, opt.master, opt.nnodes, opt.tp);
        api = bound(opt.host, opt.port); /* bound long before it listens, as the engine does */
        if (api < 0 || is(mine("STUB_FAIL"), "port")) fail(API, "OSError: [Errno 98] Address already in use");
    }
    if (setting("STUB_GARBAGE")) garbage();
    stage("config", API, "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.");
    info(API, "model.py:692", "Resolved architecture: DeepseekV41ForCausalLM");
    info(API, "model.py:2030", "Using max model len %d", opt.max_len);
    info(API, "arg_utils.py:2268", "Inferred data_parallel_rank 0 from node_rank %d", opt.rank);
    if (opt.headless) info(API, "serve.py:217", "Launching vLLM (v" VERSION ") headless multiproc executor, with head node address %s:%d for torch.distributed process group.", opt.master, opt.master_port);
    else {
        core = process(argv, "VLLM::EngineCore");
        info(CORE, "core.py:123", "Initializing a V1 LLM engine (v" VERSION ") with config: model='%s', tensor_parallel_size=%d, pipeline_parallel_size=1", opt.model, opt.tp);
        info(CORE, "multiproc_executor.py:153", "DP group leader: node_rank=0, node_rank_within_dp=0, master_addr=%s, mq_connect_ip=%s (local), world_size=%d, local_world_size=1", opt.master, opt.master, opt.nnodes);
    }
    snprintf(name, sizeof name, "VLLM::Worker_TP%d", opt.rank);
    worker = process(argv, name);
    info(WORKER, "parallel_state.py:1807", "world_size=%d rank=%d local_rank=0 distributed_init_method=tcp://%s:%d backend=nccl", opt.nnodes, opt.rank, opt.master, opt.master_port);
    stage("rendezvous", WORKER, "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 clients joined.");
    if (opt.nnodes > 1 && !setting("STUB_ALONE")) {
        if (opt.headless) join_head();
        else {
            store = bound("0.0.0.0", opt.master_port);
            if (store < 0) {
                char error[200];
                snprintf(error, sizeof error, "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: %d, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", opt.master_port);
                fail(WORKER, error);
            }
            listen(store, 128);
            wait_for_peers();
        }
    }
    boot_engine(number("STUB_BOOT_S", 0));
    if (opt.headless) stage("serve", API, "RuntimeError: worker failed after warm-up");
    else {
        static const char *routes[] = {"/health, Methods: GET", "/metrics, Methods: GET", "/v1/models, Methods: GET", "/version, Methods: GET", "/v1/chat/completions, Methods: POST", "/v1/completions, Methods: POST"};
        info(API, "entry.py:140", "Starting vLLM server on http://%s:%d", opt.host, opt.port);
        info(API, "launcher.py:60", "Available routes are:");
        for (int i = 0; i < 6; i++) info(API, "launcher.py:70", "Route: %s", routes[i]);
        stage("serve", API, "RuntimeError: the server failed to start");
        raw(API, "INFO:     Started server process [%d]", getpid());
        raw(API, "INFO:     Waiting for application startup.");
        listen(api, 128);
        raw(API, "INFO:     Application startup complete.");
    }
    serving = !opt.headless;
    for (long line = 0;;) {
        const char *die = mine("STUB_DIE");
        if (die) say(API, "ERROR", "launcher.py:120", "Terminating on request"), leave(atoi(die));
        stage("serving", API, "RuntimeError: the engine failed while serving");
        int flood = (int)number("STUB_FLOOD", 0);
        for (int i = 0; i < flood / 10; i++)
            info(TP, "flood.py:1", "line %ld: the quick brown fox jumps over the lazy dog and writes another line of the log, as engines do", line++);
        wait_s(flood ? 0.1 : 0.2);
    }
}
