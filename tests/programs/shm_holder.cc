// A process (tree) that holds shared memory, dies or lingers as it is told, for tests.
//
// shm_holder COMMAND...   does one after the other, prints "ready", and waits until stdin ends.
//   private BYTES         its own mount namespace with a tmpfs of that size on /dev/shm
//   named NAME BYTES      a file that is filled
//   open NAME BYTES       filled, unlinked, descriptor kept
//   mapped NAME BYTES     filled, unlinked, only a mapping kept
//   empty NAME BYTES      made and given its length, not filled: what a failed reservation leaves
//   lazy NAME BYTES       as empty, but mapped: will be filled by and by
//   exits CODE            a child that exits so, reaped at once
//   dies SIGNAL           a child that dies so, reaped at once
//   orphan                a grandchild whose parent ends at once
//   child                 goes on in a child; the parent waits for it
// "%" in a name is the pid. Prints "pid N" for itself, each child and each orphan. Exit 77: no
// right.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kNoRight = 77;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

size_t number(std::string_view text) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void say_pid(pid_t pid) {
  std::printf("pid %d\n", pid);
  std::fflush(stdout);
}

void wait_for_end_of_input() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

void make_private(const std::string& bytes) {
  if (::unshare(CLONE_NEWNS) != 0) std::_Exit(kNoRight);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) std::_Exit(kNoRight);
  const std::string options = "size=" + bytes;
  if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, options.c_str()) != 0) std::_Exit(kNoRight);
}

std::string path_of(std::string name) {
  if (const size_t at = name.find('%'); at != std::string::npos) {
    name.replace(at, 1, std::to_string(::getpid()));
  }
  return "/dev/shm/" + name;
}

int make(const std::string& path, size_t bytes, bool fill) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail("make");
  if (fill && ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) != 0) fail("fill");
  return fd;
}

void map(int fd, size_t bytes) {
  if (::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED) fail("mmap");
}

void hold(std::string_view how, const std::string& name, size_t bytes) {
  const std::string path = path_of(name);
  const int fd = make(path, bytes, how != "empty" && how != "lazy");
  if (how == "mapped" || how == "lazy") map(fd, bytes);
  if (how == "mapped" || how == "open") ::unlink(path.c_str());
  if (how == "named" || how == "mapped") ::close(fd);
}

void orphan() {
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild > 0) {
      say_pid(grandchild);
      std::_Exit(0);
    }
    wait_for_end_of_input();
    std::_Exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

void ending_child(bool by_signal, int how) {
  int gate[2];
  if (::pipe(gate) != 0) fail("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(gate[1]);
    char byte = 0;
    const bool released = ::read(gate[0], &byte, 1) == 1;
    if (by_signal && released) std::raise(how);
    std::_Exit(how);
  }
  ::close(gate[0]);
  say_pid(child);
  // Until the watcher has seen it; it says so by a line of input.
  char byte = 0;
  if (::read(STDIN_FILENO, &byte, 1) == 1 && ::write(gate[1], "x", 1) != 1) fail("write");
  ::close(gate[1]);
  ::waitpid(child, nullptr, 0);
}

void continue_in_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    say_pid(::getpid());
    return;
  }
  ::waitpid(child, nullptr, 0);
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  say_pid(::getpid());
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "private") {
      make_private(words.at(++i));
    } else if (word == "orphan") {
      orphan();
    } else if (word == "child") {
      continue_in_child();
    } else if (word == "exits" || word == "dies") {
      ending_child(word == "dies", static_cast<int>(number(words.at(++i))));
    } else {
      const std::string name = words.at(++i);
      hold(word, name, number(words.at(++i)));
    }
  }
  std::puts("ready");
  std::fflush(stdout);
  wait_for_end_of_input();
  return 0;
}
