/* Log lines in the shapes of a vLLM boot, and how it ends. */
#include "stub.h"
#include <stdarg.h>
#include <time.h>

void prefix(enum who who) {
    if (who == API && !opt.headless) printf("(APIServer pid=%d) ", getpid());
    if (who == CORE) printf("(EngineCore pid=%d) ", core);
    if (who == WORKER) printf("(Worker pid=%d) ", worker);
    if (who == TP) printf("(Worker_TP%d pid=%d) ", opt.rank, worker);
}

void say(enum who who, const char *level, const char *where, const char *format, ...) {
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

void leave(int code) {
    if (worker > 0) kill(worker, SIGKILL);
    if (core > 0) kill(core, SIGKILL);
    fflush(stdout);
    exit(code);
}

/* The end of a boot: the error of the process where it happened, then what the processes above it say. */
void fail(enum who who, const char *error) {
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

void garbage(void) {
    static char block[1 << 16];
    fwrite("\xff\xfe\x80 not UTF-8 \x1b[31mred\x1b[0m \0 nul \x07\x1b]0;title\x07\r\n", 1, 51, stdout);
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 160; i++) fwrite(block, 1, sizeof block, stdout);
    putchar('\n');
    fflush(stdout);
}

void bars(const char *what, int total, double seconds) {
    for (int i = 0; i <= total; i++) {
        if (i) wait_s(seconds / total);
        printf("%s%s: %3d%%|%-10.*s| %d/%d [00:%02d<00:%02d, %5.2fit/s]", i ? "\r" : "", what, 100 * i / total, 10 * i / total, "##########", i, total, (int)(seconds * i / total), (int)(seconds * (total - i) / total), total / (seconds + 0.01));
        fflush(stdout);
    }
    putchar('\n');
}
