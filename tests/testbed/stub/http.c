/* The API of rank 0: a child answers each request. */
#include "stub.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

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

void serve_one(int fd) {
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
