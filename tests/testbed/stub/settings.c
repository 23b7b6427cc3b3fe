/* Settings: the environment, under files that are read again each second. */
#include "stub.h"
#include <time.h>

const char *setting(const char *key) {
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

double number(const char *key, double otherwise) {
    const char *value = setting(key);
    return value ? atof(value) : otherwise;
}

/* A setting of failure: NULL where STUB_RANK names another rank. */
const char *mine(const char *key) {
    const char *rank = setting("STUB_RANK");
    return rank && atoi(rank) != opt.rank ? NULL : setting(key);
}

int is(const char *value, const char *word) { return value && !strcmp(value, word); }
