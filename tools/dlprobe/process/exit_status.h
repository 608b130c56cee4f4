#pragma once

namespace dlprobe {

/// The exit codes of dlprobe: part of its interface (docs/man/dlprobe.1).
enum ExitStatus : int {
  kExitPass = 0,             ///< nothing at or above --fail-on
  kExitFinding = 1,          ///< a finding at or above --fail-on
  kExitUsage = 2,            ///< the request makes no sense or cannot be carried out as written
  kExitIncomplete = 3,       ///< something required could not be checked, and nothing failed
  kExitBug = 4,              ///< a bug in dlprobe
  kExitLostCommand = 125,    ///< of `run`: the command's own code is not known
  kExitNotExecutable = 126,  ///< the command after -- cannot be executed
  kExitNotFound = 127,       ///< the command after -- does not exist
};

}  // namespace dlprobe
