// System calls that fail as a test wants them to, by a seccomp filter: what a file system or a full disk does at a
// moment that a test cannot choose otherwise.
#pragma once

#ifdef __linux__

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <thread>

namespace sparkx::testing {

// The call `number` fails with `error` when its argument (the low 32 bits of it) is at least `least`.
struct FailingCall {
  std::uint32_t number;
  int argument;
  std::uint32_t least;
  std::uint32_t error;
};

// Runs `body` in a thread of its own, for which, as for all threads it starts, the call fails. False where the kernel
// has no such filters; then nothing is run.
inline bool with_failing_call(const FailingCall& call, const std::function<void()>& body) {
  bool filtered = false;
  std::thread([&] {
    const auto low_bits = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * call.argument);
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_bits),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, call.least, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | call.error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
    filtered = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    if (filtered) body();
  }).join();
  return filtered;
}

}  // namespace sparkx::testing

#endif
