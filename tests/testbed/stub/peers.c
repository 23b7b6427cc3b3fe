/* The rendezvous: rank 0 waits for all, workers try until it is there. */
#include "stub.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

int bound(const char *host, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (!inet_aton(host, &at.sin_addr)) at.sin_addr.s_addr = INADDR_ANY;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0) return fd;
    close(fd);
    return -1;
}

void wait_for_peers(void) {
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

void join_head(void) {
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
