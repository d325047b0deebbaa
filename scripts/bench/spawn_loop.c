/* spawn_loop N PROGRAM ARG...: start a program N times with RANK set, wait for all. The least one can do. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int count = atoi(argv[1]);
    for (int rank = 0; rank < count; rank++) {
        char text[16];
        pid_t pid;
        snprintf(text, sizeof text, "%d", rank);
        setenv("RANK", text, 1);
        if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ))
            return 1;
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
