#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "lib/base/unique_fd.h"
#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

void say(const UniqueFd& to, char letter) {
  [[maybe_unused]] const ssize_t written = ::write(to.get(), &letter, 1);
}

/// Everything that is written until nobody can write any more.
std::string all_of(const UniqueFd& from) {
  std::string text;
  char letter = 0;
  while (::read(from.get(), &letter, 1) == 1)
    text += letter;
  return text;
}

/// A child of the child that says 'a' before, 'b' in, and 'c' after a pause in which its parent
/// dies.
[[noreturn]] void be_the_worker(int parent, const UniqueFd& parent_may_go, const UniqueFd& out) {
  die_with_parent(parent);
  say(out, 'a');
  {
    const ParentDeathPause pause;
    say(parent_may_go, 'g');
    while (::getppid() == parent)
      ::poll(nullptr, 0, 1);
    say(out, 'b');
  }
  say(out, 'c');
  ::_exit(0);
}

TEST(ParentDeathPause, DeathOfTheParentWaitsForTheEndOfTheScope) {
  Pipe out = make_pipe().value();
  const pid_t parent = ::fork();
  if (parent == 0) {
    Pipe go = make_pipe().value();
    const pid_t self = ::getpid();
    if (::fork() == 0) be_the_worker(self, go.write_end, out.write_end);
    char letter = 0;
    [[maybe_unused]] const ssize_t got = ::read(go.read_end.get(), &letter, 1);
    ::_exit(0);
  }
  out.write_end.reset();
  EXPECT_EQ(all_of(out.read_end), "ab");
  ::waitpid(parent, nullptr, 0);
}

TEST(ParentDeathPause, IsNothingWhereTheProcessDoesNotDieWithItsParent) {
  {
    const ParentDeathPause pause;
  }
  int signal = -1;
  ASSERT_EQ(::prctl(PR_GET_PDEATHSIG, &signal), 0);
  EXPECT_EQ(signal, 0);
}

}  // namespace
}  // namespace dlprobe::loader
