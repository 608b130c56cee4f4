#pragma once

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace dlprobe {

/// A program that a test started: lines of its output can be read, lines of input given. It is
/// killed and reaped with the object.
class ScopedChild {
 public:
  explicit ScopedChild(std::vector<std::string> argv) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      std::vector<char*> arguments;
      for (std::string& argument : argv)
        arguments.push_back(argument.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = ::fdopen(out[0], "r");
  }
  ScopedChild(const ScopedChild&) = delete;
  ScopedChild& operator=(const ScopedChild&) = delete;
  ~ScopedChild() {
    end_input();
    kill();
    wait();
    if (output_ != nullptr) std::fclose(output_);
  }

  pid_t pid() const { return pid_; }

  /// The next line without its newline; empty at the end of the output.
  std::string line() {
    std::string text;
    for (int c = std::fgetc(output_); c != EOF && c != '\n'; c = std::fgetc(output_)) {
      text += static_cast<char>(c);
    }
    return text;
  }
  /// The number of the next line, which must be "pid N"; 0 if it is not.
  int pid_line() {
    int pid = 0;
    return std::sscanf(line().c_str(), "pid %d", &pid) == 1 ? pid : 0;
  }
  void send(const std::string& text) const {
    if (::write(input_, text.data(), text.size()) < 0) std::perror("write");
  }
  void end_input() {
    if (input_ >= 0) ::close(input_);
    input_ = -1;
  }
  void kill() const {
    if (!reaped_) ::kill(pid_, SIGKILL);
  }
  /// Reaps it: its wait status.
  int wait() {
    if (!reaped_ && ::waitpid(pid_, &status_, 0) == pid_) reaped_ = true;
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::FILE* output_ = nullptr;
  int status_ = 0;
  bool reaped_ = false;
};

}  // namespace dlprobe
