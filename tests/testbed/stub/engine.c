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
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VERSION "0.28.1rc1.dev388+g8a728663c"
#define SHARDS 48
#define MAXPEERS 256

static struct {
    const char *model, *served, *host, *master;
    int rank, nnodes, tp, port, master_port, headless, max_len;
} opt = {"", NULL, "0.0.0.0", "127.0.0.1", 0, 1, 1, 8000, 29501, 0, 4096};

static struct shared {
    volatile long requests, prompt_tokens, generation_tokens, running;
    volatile int peer_lost, fatal;
} *shared;

static volatile sig_atomic_t terminated, child_died;
static pid_t core, worker;
static int peers[MAXPEERS], npeers, arrived, api = -1, serving, store = -1;

/* ---- settings */

static const char *setting(const char *key) {
    static char table[64][2][256];
    static int n;
    static time_t read_at;
    time_t now = time(NULL);
    if (now != read_at) {
        char path[512], line[512];
        const char *hf = getenv("HF_HOME");
        snprintf(path, sizeof path, "%s/stub.env", hf && *hf ? hf : "/root/.cache/huggingface");
        const char *files[] = {path, "/etc/stub.env"};
        read_at = now, n = 0;
        for (int f = 0; f < 2; f++) {
            FILE *in = fopen(files[f], "r");
            if (!in) continue;
            while (n < 64 && fgets(line, sizeof line, in)) {
                char *eq = strchr(line, '=');
                if (!eq) continue;
                *eq = 0, eq[1 + strcspn(eq + 1, "\r\n")] = 0;
                snprintf(table[n][0], 256, "%.255s", line), snprintf(table[n][1], 256, "%.255s", eq + 1), n++;
            }
            fclose(in);
        }
    }
    for (int i = 0; i < n; i++)
        if (!strcmp(table[i][0], key)) return *table[i][1] ? table[i][1] : NULL;
    const char *env = getenv(key);
    return env && *env ? env : NULL;
}

static double number(const char *key, double otherwise) {
    const char *value = setting(key);
    return value ? atof(value) : otherwise;
}

/* A setting of failure: NULL where STUB_RANK names another rank. */
static const char *mine(const char *key) {
    const char *rank = setting("STUB_RANK");
    return rank && atoi(rank) != opt.rank ? NULL : setting(key);
}

static int is(const char *value, const char *word) { return value && !strcmp(value, word); }

/* ---- log lines */

enum who { API, CORE, WORKER, TP, PLAIN };

static void prefix(enum who who) {
    if (who == API && !opt.headless) printf("(APIServer pid=%d) ", getpid());
    if (who == CORE) printf("(EngineCore pid=%d) ", core);
    if (who == WORKER) printf("(Worker pid=%d) ", worker);
    if (who == TP) printf("(Worker_TP%d pid=%d) ", opt.rank, worker);
}

static void say(enum who who, const char *level, const char *where, const char *format, ...) {
    char stamp[32];
    time_t now = time(NULL);
    va_list args;
    strftime(stamp, sizeof stamp, "%m-%d %H:%M:%S", gmtime(&now));
    prefix(who);
    if (level) printf("%s %s [%s] ", level, stamp, where);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}
#define info(who, where, ...) say(who, "INFO", where, __VA_ARGS__)
#define raw(who, ...) say(who, NULL, NULL, __VA_ARGS__)

static void leave(int code) {
    if (worker > 0) kill(worker, SIGKILL);
    if (core > 0) kill(core, SIGKILL);
    fflush(stdout);
    exit(code);
}

/* The end of a boot: the error of the process where it happened, then what the processes above it say. */
static void fail(enum who who, const char *error) {
    const char *where = who == API ? "serve.py:226" : "multiproc_executor.py:871";
    if (who == WORKER || who == TP) {
        say(who, "ERROR", where, "WorkerProc failed to start.");
        say(who, "ERROR", where, "Traceback (most recent call last):");
        say(who, "ERROR", where, "  File \"/usr/local/lib/python3.12/dist-packages/vllm/v1/executor/multiproc_executor.py\", line 842, in worker_main");
        say(who, "ERROR", where, "    worker = WorkerProc(*args, **kwargs)");
        say(who, "ERROR", where, "%s", error);
        if (!opt.headless) {
            say(CORE, "ERROR", "core.py:1374", "EngineCore failed to start.");
            raw(CORE, "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.");
            raw(API, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}");
        }
    } else {
        raw(who, "Traceback (most recent call last):");
        raw(who, "  File \"/usr/local/bin/vllm\", line 10, in <module>");
        raw(who, "    sys.exit(main())");
        raw(who, "%s", error);
    }
    leave((int)number("STUB_EXIT", 1));
}

/* ---- waiting that notices everything */

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void on_signal(int number_) {
    if (number_ == SIGCHLD) child_died = 1;
    else terminated = number_;
}

static void serve_one(int fd);

static void shutdown_gracefully(void) {
    if (opt.headless) info(API, "serve.py:240", "Shutting down.");
    else if (serving) {
        raw(API, "INFO:     Shutting down");
        raw(API, "INFO:     Waiting for application shutdown.");
        raw(API, "INFO:     Application shutdown complete.");
        raw(API, "INFO:     Finished server process [%d]", getpid());
    } else info(API, "launcher.py:110", "Received signal %d, shutting down.", (int)terminated);
    double seconds = number("STUB_TERM_S", 0);
    if (seconds > 0) usleep((useconds_t)(seconds * 1e6));
    leave(0);
}

static void reap(void) {
    int status;
    pid_t pid;
    child_died = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != worker && pid != core) continue;
        int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
        if (pid == worker) {
            worker = 0;
            say(opt.headless ? API : CORE, "ERROR", "multiproc_executor.py:277", "Worker proc VllmWorker-%d died unexpectedly (exit code: %d), shutting down executor.", opt.rank, code);
            if (opt.headless) leave(0); /* as seen: a dead rank can leave exit code 0 */
        } else core = 0;
        say(API, "ERROR", "async_llm.py:704", "AsyncLLM output_handler failed.");
        raw(API, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.");
        leave(1);
    }
}

static void peer_gone(int i) {
    close(peers[i]);
    peers[i] = peers[--npeers];
    if (opt.headless) {
        raw(WORKER, "[W%s] recvValue failed on SocketImpl(fd=%d): Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?", "TCPStore.cpp:125", 70 + i);
        leave(0);
    }
    if (serving) shared->peer_lost = 1; /* silent until the next request, as the engine is */
    else fail(WORKER, "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer");
}

/* Wait, and meanwhile answer requests, notice signals, dead children and lost peers. */
static void wait_s(double seconds) {
    double until = now_s() + seconds;
    do {
        struct pollfd fds[MAXPEERS + 1];
        int n = 0, ms = (int)((until - now_s()) * 1000);
        if (terminated && !setting("STUB_IGNORE_TERM")) shutdown_gracefully();
        if (child_died) reap();
        if (shared->fatal) {
            say(CORE, "ERROR", "core.py:1411", "EngineCore encountered a fatal error.");
            say(CORE, "ERROR", "core.py:1411", "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer");
            raw(API, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.");
            leave(1);
        }
        for (int i = 0; i < npeers; i++) fds[n++] = (struct pollfd){peers[i], POLLIN, 0};
        if (serving) fds[n++] = (struct pollfd){api, POLLIN, 0};
        if (poll(fds, n, ms < 0 ? 0 : ms > 200 ? 200 : ms) <= 0) continue;
        for (int i = npeers - 1; i >= 0; i--) {
            char byte;
            ssize_t got = fds[i].revents ? recv(peers[i], &byte, 1, MSG_DONTWAIT) : -1;
            if (got > 0) arrived++;
            else if (got == 0 || (fds[i].revents && errno != EAGAIN)) peer_gone(i);
        }
        if (serving && fds[n - 1].revents) serve_one(api);
    } while (now_s() < until);
}

/* A stage begins: this is where the settings of failure strike. */
static void stage(const char *name, enum who who, const char *error) {
    if (is(mine("STUB_KILL"), name) && worker > 0) kill(worker, SIGKILL), wait_s(5);
    if (is(mine("STUB_FAIL"), name)) fail(who, error);
    while (is(mine("STUB_HANG"), name)) wait_s(0.2);
}

/* ---- processes */

static void title(char **argv, const char *text) {
    size_t room = 0;
    for (int i = 0; argv[i]; i++) room = (size_t)(argv[i] + strlen(argv[i]) + 1 - argv[0]);
    memset(argv[0], 0, room);
    snprintf(argv[0], room, "%s", text);
    prctl(PR_SET_NAME, text);
}

static pid_t process(char **argv, const char *text) {
    pid_t pid = fork();
    if (pid) return pid;
    signal(SIGTERM, SIG_IGN), signal(SIGINT, SIG_IGN), signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    title(argv, text);
    if (api >= 0) close(api);
    if (store >= 0) close(store);
    for (;;) pause();
}

/* ---- rendezvous */

static int bound(const char *host, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (!inet_aton(host, &at.sin_addr)) at.sin_addr.s_addr = INADDR_ANY;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0) return fd;
    close(fd);
    return -1;
}

static void wait_for_peers(void) {
    double limit = number("STUB_RDZV_S", 600), deadline = now_s() + limit;
    char error[200];
    while (npeers < opt.nnodes - 1) {
        struct pollfd fd = {store, POLLIN, 0};
        if (poll(&fd, 1, 20) > 0) {
            int peer = accept4(store, NULL, NULL, SOCK_CLOEXEC);
            if (peer >= 0 && npeers < MAXPEERS) peers[npeers++] = peer;
        }
        if (terminated && !setting("STUB_IGNORE_TERM")) shutdown_gracefully();
        if (child_died) reap();
        if (now_s() < deadline) continue;
        snprintf(error, sizeof error, "torch.distributed.DistStoreError: Timed out after %d seconds waiting for clients. %d/%d clients joined.", (int)limit + 1, npeers + 1, opt.nnodes);
        fail(WORKER, error);
    }
    for (int i = 0; i < npeers; i++) (void)!write(peers[i], "go", 2);
}

static void join_head(void) {
    struct sockaddr_in head = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.master_port)};
    double deadline = now_s() + number("STUB_RDZV_S", 600);
    char go[2];
    if (!inet_aton(opt.master, &head.sin_addr)) fail(API, "socket.gaierror: [Errno -2] Name or service not known");
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err = 0;
        socklen_t length = sizeof err;
        struct pollfd wait = {fd, POLLOUT, 0};
        fcntl(fd, F_SETFL, O_NONBLOCK);
        if (connect(fd, (struct sockaddr *)&head, sizeof head) == 0 || errno == EINPROGRESS) {
            do { wait_s(0.01); } while (poll(&wait, 1, 20) <= 0 && now_s() < deadline);
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length);
            if (!err && now_s() < deadline) {
                fcntl(fd, F_SETFL, 0);
                for (wait.events = POLLIN; poll(&wait, 1, 20) <= 0;) wait_s(0.01);
                if (recv(fd, go, 2, MSG_WAITALL) == 2) {
                    peers[npeers++] = fd;
                    return;
                }
            }
        }
        close(fd);
        if (now_s() > deadline) fail(WORKER, "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to the head node.");
        wait_s(0.05);
    }
}

/* ---- HTTP: a child answers each request */

static void answer(int fd, int status, const char *type, const char *body) {
    char head[256];
    const char *text = status == 200 ? "OK" : status == 404 ? "Not Found" : status == 503 ? "Service Unavailable" : status == 400 ? "Bad Request" : "Internal Server Error";
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nserver: uvicorn\r\ncontent-length: %zu\r\ncontent-type: %s\r\nconnection: close\r\n\r\n", status, text, strlen(body), type);
    (void)!write(fd, head, (size_t)n);
    (void)!write(fd, body, strlen(body));
}

static void metrics(int fd) {
    char body[4096];
    const char *m = opt.served;
    snprintf(body, sizeof body,
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n# TYPE vllm:num_requests_running gauge\n"
        "vllm:num_requests_running{engine=\"0\",model_name=\"%s\"} %ld.0\n"
        "# HELP vllm:num_requests_waiting Number of requests waiting to be processed.\n# TYPE vllm:num_requests_waiting gauge\n"
        "vllm:num_requests_waiting{engine=\"0\",model_name=\"%s\"} 0.0\n"
        "# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.\n# TYPE vllm:kv_cache_usage_perc gauge\n"
        "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"%s\"} 0.0\n"
        "# HELP vllm:prompt_tokens_total Number of prefill tokens processed.\n# TYPE vllm:prompt_tokens_total counter\n"
        "vllm:prompt_tokens_total{engine=\"0\",model_name=\"%s\"} %ld.0\n"
        "# HELP vllm:generation_tokens_total Number of generation tokens processed.\n# TYPE vllm:generation_tokens_total counter\n"
        "vllm:generation_tokens_total{engine=\"0\",model_name=\"%s\"} %ld.0\n"
        "# HELP vllm:request_success_total Count of successfully processed requests.\n# TYPE vllm:request_success_total counter\n"
        "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"%s\"} %ld.0\n",
        m, shared->running, m, m, m, shared->prompt_tokens, m, shared->generation_tokens, m, shared->requests);
    answer(fd, 200, "text/plain; version=0.0.4; charset=utf-8", body);
}

static void text_for(const char *prompt, char *out, size_t room) {
    const char *how = setting("STUB_ANSWER");
    int a, b;
    char op;
    if (is(how, "empty")) { *out = 0; return; }
    if (is(how, "repeat")) {
        for (*out = 0; strlen(out) + 8 < room && strlen(out) < 256;) strcat(out, "care");
        return;
    }
    for (const char *p = prompt; *p; p++) {
        if (!isdigit((unsigned char)*p) || (p > prompt && isdigit((unsigned char)p[-1]))) continue;
        if (sscanf(p, "%d %c %d", &a, &op, &b) == 3 && strchr("+-*x", op)) {
            snprintf(out, room, "%d", op == '+' ? a + b : op == '-' ? a - b : a * b);
            return;
        }
    }
    if (strstr(prompt, "France")) snprintf(out, room, "The capital of France is Paris.");
    else snprintf(out, room, "Hello! Eight small machines share this model, and every rank answers the head in time.");
}

/* The JSON string after the last "key": in the body, unescaped no further than it takes to read a prompt. */
static void json_string(const char *body, const char *key, char *out, size_t room) {
    char quoted[64];
    const char *at = NULL;
    size_t n = 0;
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    for (const char *p = body; (p = strstr(p, quoted)); p++) at = p;
    *out = 0;
    if (!at || !(at = strchr(at + strlen(quoted), ':'))) return;
    for (at++; isspace((unsigned char)*at);) at++;
    if (*at++ != '"') return;
    for (; *at && *at != '"' && n + 1 < room; at++) {
        if (*at == '\\' && at[1]) at++;
        out[n++] = *at;
    }
    out[n] = 0;
}

static int words(const char *text) {
    int n = 0, in = 0;
    for (; *text; text++) {
        if (!isspace((unsigned char)*text) && !in) n++;
        in = !isspace((unsigned char)*text);
    }
    return n;
}

static void complete(int fd, const char *body, int chat) {
    char model[256], prompt[2048], text[600], out[4096], quoted[700] = "", reason[300] = "";
    const char *how = setting("STUB_ANSWER"), *max = strstr(body, "\"max_tokens\""), *finish = "stop";
    int stream = strstr(body, "\"stream\": true") || strstr(body, "\"stream\":true"), limit;
    if (!max) max = strstr(body, "\"max_completion_tokens\"");
    limit = max && (max = strchr(max, ':')) ? atoi(max + 1) : 256;
    if (how && isdigit((unsigned char)*how)) usleep((useconds_t)(atof(how) * 1e6));
    if (is(how, "hang") || (shared->peer_lost && is(setting("STUB_PEER_LOSS"), "hang"))) for (;;) pause();
    if (shared->peer_lost || is(how, "error")) {
        answer(fd, 500, "application/json", "{\"error\":{\"message\":\"EngineCore encountered an issue. See stack trace (above) for the root cause.\",\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}");
        if (shared->peer_lost) shared->fatal = 1;
        return;
    }
    json_string(body, "model", model, sizeof model);
    if (*model && strcmp(model, opt.served)) {
        snprintf(out, sizeof out, "{\"error\":{\"message\":\"The model `%s` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}", model);
        answer(fd, 404, "application/json", out);
        return;
    }
    json_string(body, chat ? "content" : "prompt", prompt, sizeof prompt);
    text_for(prompt, text, sizeof text);
    if (words(text) > limit) {
        char *p = text;
        for (int n = 0; *p && n < limit; n++) { while (*p == ' ') p++; while (*p && *p != ' ') p++; }
        *p = 0, finish = "length";
    }
    if (*text || !setting("STUB_ANSWER")) snprintf(quoted, sizeof quoted, "\"%s\"", text);
    else snprintf(quoted, sizeof quoted, "\"\"");
    if (chat && setting("STUB_THINK")) {
        snprintf(reason, sizeof reason, ",\"reasoning\":\"The user asks, so I think first.\",\"reasoning_content\":\"The user asks, so I think first.\"");
        if (limit < 16) snprintf(quoted, sizeof quoted, "null"), finish = "length";
    }
    int in = words(prompt) + 4, made = words(text);
    long id = __sync_add_and_fetch(&shared->requests, 1), at = (long)time(NULL);
    __sync_add_and_fetch(&shared->prompt_tokens, in);
    __sync_add_and_fetch(&shared->generation_tokens, made);
    const char *kind = chat ? "chatcmpl" : "cmpl", *object = chat ? "chat.completion" : "text_completion";
    if (!stream) {
        char choice[1200];
        if (chat) snprintf(choice, sizeof choice, "\"message\":{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[]%s}", quoted, reason);
        else snprintf(choice, sizeof choice, "\"text\":%s", quoted);
        snprintf(out, sizeof out, "{\"id\":\"%s-%08lx\",\"object\":\"%s\",\"created\":%ld,\"model\":\"%s\",\"choices\":[{\"index\":0,%s,\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null}],"
            "\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d,\"prompt_tokens_details\":null}}", kind, id, object, at, opt.served, choice, finish, in, in + made, made);
        answer(fd, 200, "application/json", out);
        return;
    }
    dprintf(fd, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n");
    char *rest = text;
    while (*rest) {
        size_t n = strcspn(rest + 1, " ") + 1;
        if (chat) dprintf(fd, "data: {\"id\":\"%s-%08lx\",\"object\":\"%s.chunk\",\"created\":%ld,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%.*s\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n", kind, id, object, at, opt.served, (int)n, rest);
        else dprintf(fd, "data: {\"id\":\"%s-%08lx\",\"object\":\"%s\",\"created\":%ld,\"model\":\"%s\",\"choices\":[{\"index\":0,\"text\":\"%.*s\",\"logprobs\":null,\"finish_reason\":null}]}\n\n", kind, id, object, at, opt.served, (int)n, rest);
        rest += n;
        usleep(10000);
    }
    if (chat) dprintf(fd, "data: {\"id\":\"%s-%08lx\",\"object\":\"%s.chunk\",\"created\":%ld,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"%s\"}]}\n\n", kind, id, object, at, opt.served, finish);
    dprintf(fd, "data: {\"id\":\"%s-%08lx\",\"object\":\"%s\",\"created\":%ld,\"model\":\"%s\",\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", kind, id, object, at, opt.served, in, in + made, made);
}

static void respond(int fd, struct sockaddr_in *from) {
    static char request[1 << 20];
    char method[8] = "", path[256] = "", body[512], *head_end = NULL;
    size_t n = 0, want = 0;
    while (n < sizeof request - 1) {
        ssize_t got = read(fd, request + n, sizeof request - 1 - n);
        if (got <= 0) return;
        n += (size_t)got, request[n] = 0;
        if (!head_end && (head_end = strstr(request, "\r\n\r\n"))) {
            const char *length = strcasestr(request, "\ncontent-length:");
            head_end += 4;
            want = length && length < head_end ? (size_t)atol(length + 16) : 0;
        }
        if (head_end && n >= (size_t)(head_end - request) + want) break;
    }
    if (!head_end || sscanf(request, "%7s %255s", method, path) != 2) return;
    const char *health = setting("STUB_HEALTH");
    __sync_add_and_fetch(&shared->running, 1);
    int status = 200;
    if (!strcmp(path, "/health") || !strcmp(path, "/ping")) {
        if (is(health, "hang")) for (;;) pause();
        answer(fd, status = health ? atoi(health) : 200, "text/plain", "");
    } else if (!strcmp(path, "/v1/models")) {
        snprintf(body, sizeof body, "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":%ld,\"owned_by\":\"vllm\",\"root\":\"%s\",\"parent\":null,\"max_model_len\":%d}]}", opt.served, (long)time(NULL), opt.model, opt.max_len);
        answer(fd, 200, "application/json", body);
    } else if (!strcmp(path, "/metrics")) metrics(fd);
    else if (!strcmp(path, "/version")) answer(fd, 200, "application/json", "{\"version\":\"" VERSION "\"}");
    else if (!strcmp(path, "/v1/chat/completions")) complete(fd, head_end, 1);
    else if (!strcmp(path, "/v1/completions")) complete(fd, head_end, 0);
    else answer(fd, status = 404, "application/json", "{\"detail\":\"Not Found\"}");
    __sync_sub_and_fetch(&shared->running, 1);
    if (shared->fatal) status = 500;
    if (strcmp(path, "/metrics")) printf("(APIServer pid=%d) INFO:     %s:%d - \"%s %s HTTP/1.1\" %d %s\n", getppid(), inet_ntoa(from->sin_addr), ntohs(from->sin_port), method, path, status, status == 200 ? "OK" : "Error");
    fflush(stdout);
}

static void serve_one(int fd) {
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    int client = accept4(fd, (struct sockaddr *)&from, &length, SOCK_CLOEXEC);
    if (client < 0) return;
    if (fork() == 0) {
        signal(SIGTERM, SIG_DFL), signal(SIGCHLD, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        respond(client, &from);
        shutdown(client, SHUT_RDWR);
        _exit(0);
    }
    close(client);
}

/* ---- the boot */

static void garbage(void) {
    static char block[1 << 16];
    fwrite("\xff\xfe\x80 not UTF-8 \x1b[31mred\x1b[0m \0 nul \x07\x1b]0;title\x07\r\n", 1, 51, stdout);
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 160; i++) fwrite(block, 1, sizeof block, stdout);
    putchar('\n');
    fflush(stdout);
}

static void bars(const char *what, int total, double seconds) {
    for (int i = 0; i <= total; i++) {
        if (i) wait_s(seconds / total);
        printf("%s%s: %3d%%|%-10.*s| %d/%d [00:%02d<00:%02d, %5.2fit/s]", i ? "\r" : "", what, 100 * i / total, 10 * i / total, "##########", i, total, (int)(seconds * i / total), (int)(seconds * (total - i) / total), total / (seconds + 0.01));
        fflush(stdout);
    }
    putchar('\n');
}

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

int main(int argc, char **argv) {
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
