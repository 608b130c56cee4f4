#include "lib/collect/snapshot/access_gap.h"

#include <fmt/format.h>
#include <linux/capability.h>

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/parse.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

/// What of a status file bears on who may look into whom.
struct Rights {
  uint32_t real_uid = 0;
  uint32_t effective_uid = 0;
  bool may_trace = false;  ///< CAP_SYS_PTRACE, in its own user namespace
};

std::optional<Rights> read_rights(const Directory& directory, std::string_view name) {
  const auto text = directory.read(name);
  if (!text) return std::nullopt;
  const auto uids = split_fields(find_value(*text, "Uid").value_or(""));
  if (uids.size() < 2) return std::nullopt;
  const auto real = parse_int<uint32_t>(uids[0]);
  const auto effective = parse_int<uint32_t>(uids[1]);
  if (!real || !effective) return std::nullopt;
  return Rights{.real_uid = *real,
                .effective_uid = *effective,
                .may_trace = has_capability(*text, CAP_SYS_PTRACE)};
}

int yama_scope(const Directory& root) {
  const auto text = root.read("proc/sys/kernel/yama/ptrace_scope");
  return text ? parse_int<int>(trim(*text)).value_or(0) : 0;
}

/// A cause in words, and what helps.
struct Cause {
  OwnWords why;
  OwnWords remedy;
};

Cause yama_cause(int scope) {
  constexpr const char* kByRoot =
      "run dlprobe as root; in a container: docker run --cap-add SYS_PTRACE";
  if (scope >= 3) {
    return {"kernel.yama.ptrace_scope is 3: no program may read another until the next boot",
            "boot with kernel.yama.ptrace_scope below 3"};
  }
  if (scope == 2) {
    return {"kernel.yama.ptrace_scope is 2: only a program with CAP_SYS_PTRACE may read another",
            kByRoot};
  }
  return {"kernel.yama.ptrace_scope is 1: a program may read only those that it started",
          OwnWords("start the job with dlprobe (dlprobe deadlock -- COMMAND), or: "
                   "sudo sysctl kernel.yama.ptrace_scope=0, or: ") +
              kByRoot};
}

Cause cause_of(const Directory& root, const Directory& process, int32_t pid) {
  const auto self = read_rights(root, "proc/self/status");
  const auto target = read_rights(process, "status");
  if (!self || !target) return {};
  if (self->may_trace) {
    return {
        "although dlprobe has CAP_SYS_PTRACE: the process is in another user namespace, or a "
        "security module (AppArmor, SELinux, seccomp) forbids it",
        "run dlprobe on the host, outside containers, as root"};
  }
  if (self->effective_uid == 0) {
    return {"dlprobe is root, but without CAP_SYS_PTRACE, as in a container",
            "docker run --cap-add SYS_PTRACE (Kubernetes: securityContext.capabilities.add: "
            "[SYS_PTRACE])"};
  }
  if (target->real_uid != self->effective_uid) {
    return {"it belongs to user id " + own(target->real_uid) + ", dlprobe runs as user id " +
                own(self->effective_uid),
            "sudo dlprobe attach " + own(pid)};
  }
  // The kernel gives the files of a process that is not dumpable to root (proc(5)).
  const auto owner = process.stat("status");
  if (owner && owner->uid != target->real_uid) {
    return {
        "it is not dumpable: it has more rights than its user, or asked for that (prctl "
        "PR_SET_DUMPABLE)",
        "sudo dlprobe attach " + own(pid)};
  }
  if (const int scope = yama_scope(root); scope > 0) return yama_cause(scope);
  return {"a security module (AppArmor, SELinux, seccomp) may forbid it",
          "run dlprobe as root; in a container: docker run --cap-add SYS_PTRACE"};
}

}  // namespace

Gap access_gap(const Directory& root, const Directory& process, int32_t pid, const Error& error) {
  Gap gap{.what = "stacks of process " + own(pid),
          .why = as_text(to_string(error)),
          .effect = "dlprobe knows at most the kernel function in which its threads wait"};
  if (error.code != ErrorCode::kForbidden) return gap;
  const Cause cause = cause_of(root, process, pid);
  if (!cause.why.empty()) gap.why = cause.why + " (" + gap.why + ")";
  gap.remedy = cause.remedy.empty() ? OwnWords("run dlprobe as root") : cause.remedy;
  return gap;
}

Message describe_tracer(const Directory& root, int32_t tracer_pid) {
  const auto comm = root.read(fmt::format("proc/{}/comm", tracer_pid));
  return comm ? say("process {} ({})", tracer_pid, as_name(trim(*comm)))
              : "process " + own(tracer_pid);
}

}  // namespace dlprobe
