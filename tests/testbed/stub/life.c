/* Signals, children, lost peers, and waiting that notices them all. */
#include "stub.h"
#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

void on_signal(int number_) {
    if (number_ == SIGCHLD) child_died = 1;
    else terminated = number_;
}

void shutdown_gracefully(void) {
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

void reap(void) {
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
void wait_s(double seconds) {
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
void stage(const char *name, enum who who, const char *error) {
    if (is(mine("STUB_KILL"), name) && worker > 0) kill(worker, SIGKILL), wait_s(5);
    if (is(mine("STUB_FAIL"), name)) fail(who, error);
    while (is(mine("STUB_HANG"), name)) wait_s(0.2);
}

static void title(char **argv, const char *text) {
    size_t room = 0;
    for (int i = 0; argv[i]; i++) room = (size_t)(argv[i] + strlen(argv[i]) + 1 - argv[0]);
    memset(argv[0], 0, room);
    snprintf(argv[0], room, "%s", text);
    prctl(PR_SET_NAME, text);
}

pid_t process(char **argv, const char *text) {
    pid_t pid = fork();
    if (pid) return pid;
    signal(SIGTERM, SIG_IGN), signal(SIGINT, SIG_IGN), signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    title(argv, text);
    if (api >= 0) close(api);
    if (store >= 0) close(store);
    for (;;) pause();
}
