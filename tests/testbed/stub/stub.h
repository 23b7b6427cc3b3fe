/* What the parts of the stub engine share. */
#ifndef STUB_H
#define STUB_H
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define VERSION "0.28.1rc1.dev388+g8a728663c"
#define MAXPEERS 256

struct options {
    const char *model, *served, *host, *master;
    int rank, nnodes, tp, port, master_port, headless, max_len;
};
struct shared { /* seen by the children that answer requests */
    volatile long requests, prompt_tokens, generation_tokens, running;
    volatile int peer_lost, fatal;
};
/* Who prints a line: the main process, the engine core, a worker before and after it knows its rank, nobody. */
enum who { API, CORE, WORKER, TP, PLAIN };

extern struct options opt;
extern struct shared *shared;
extern volatile sig_atomic_t terminated, child_died;
extern pid_t core, worker;
extern int peers[MAXPEERS], npeers, arrived, api, serving, store;

/* settings.c */
const char *setting(const char *key);
const char *mine(const char *key);
double number(const char *key, double otherwise);
int is(const char *value, const char *word);

/* log.c */
void prefix(enum who who);
void say(enum who who, const char *level, const char *where, const char *format, ...) __attribute__((format(printf, 4, 5)));
#define info(who, where, ...) say(who, "INFO", where, __VA_ARGS__)
#define raw(who, ...) say(who, NULL, NULL, __VA_ARGS__)
void leave(int code) __attribute__((noreturn));
void fail(enum who who, const char *error) __attribute__((noreturn));
void bars(const char *what, int total, double seconds);
void garbage(void);

/* life.c */
double now_s(void);
void on_signal(int signum);
void reap(void);
void shutdown_gracefully(void) __attribute__((noreturn));
void wait_s(double seconds);
void stage(const char *name, enum who who, const char *error);
pid_t process(char **argv, const char *text);

/* peers.c */
int bound(const char *host, int port);
void wait_for_peers(void);
void join_head(void);

/* http.c */
void serve_one(int fd);
#endif
