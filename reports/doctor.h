#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/recording.h"
#include "reports/format.h"
#include "reports/model/report.h"

namespace dlprobe {

/// MAJOR.MINOR of the document that `dlprobe doctor --json` writes.
inline constexpr std::string_view kDoctorSchemaVersion = "1.0";

enum class AbilityState {
  kOk,
  kLimited,  ///< some of it
  kMissing,
};
std::string_view to_string(AbilityState state);  ///< "ok", "limited", "missing"

/// Something that dlprobe can do where it is let.
struct Ability {
  std::string name;   ///< stable: "stacks.others"
  std::string title;  ///< "stacks of other users' processes"
  AbilityState state = AbilityState::kOk;
  bool is_required = false;  ///< without it dlprobe is of no use here
  std::string text;          ///< what was tried, and what came of it
  std::string needed_for;    ///< subcommands, findings
  std::string remedy;        ///< what enables it; empty: nothing does, or nothing has to
};

/// Who dlprobe is here.
struct OwnRights {
  uint32_t uid = 0;
  std::string capabilities;        ///< effective ones, as the kernel has them: hexadecimal
  std::string seccomp;             ///< "none", "strict", "filter"; empty: not known
  std::string ptrace_scope;        ///< of Yama: "0" to "3"; empty: the kernel has no Yama
  bool own_pid_namespace = false;  ///< not the machine's first one
};

struct DoctorLook {
  std::string version;
  HostFacts host;
  OwnRights rights;
  std::vector<Ability> abilities;
};

/// The document, with a verdict: fail where something required is missing, warn where anything is.
Json make_doctor(const DoctorLook& look);

/// 0, or 1 where something that is required is missing.
int exit_code_of_doctor(const Json& doctor);

/// The formats of that document.
std::span<const ReportFormat> doctor_formats();

}  // namespace dlprobe
