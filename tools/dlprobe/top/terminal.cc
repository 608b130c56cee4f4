// Functions, not macros with names such as `erase` and `refresh`.
#define NCURSES_NOMACROS
#include <ncurses.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/top/screen.h"

namespace dlprobe {
namespace {

// For a machine without a terminfo database, or without the entry of this terminal (a static
// dlprobe in an empty container): the sequences of ECMA-48 and xterm that every emulator knows.
// Made by tic and infocmp -Q2 of tools/dlprobe/top/fallback.terminfo.
constexpr const char* kFallbackName = "dlprobe-ansi";
constexpr const char* kFallback =
    "b64:GgEeAA8AAwCmAIcAZGxwcm9iZS1hbnNpfEVDTUEtNDggdGVybWluYWwAAAEAAAAAAAAAAAAAAAABAFAA__8YAP____"
    "8AAP____8CAAoADgD_____EgAjACUAKQAwAP__MgA5AP__PQD__________________0EARgD_____________TwD_____"
    "_____1QAWAD_____________________________________________________YQD___________________________"
    "__________ZQD_____aQD__20AcgB3AP_______3sA____________________________________________________"
    "_________________________________________________________38A__________________________________"
    "________________________________________________________-"
    "BAIUADQAbW0gbWzJKABtbSwAbW0oAG1slaSVwMSVkOyVwMiVkSAAKABtbSAAbWz8yNWwACAAbWz8yNWgAG1tDABtbQQAbW"
    "zFtABtbPzEwNDloABtbN20AG1ttABtbPzEwNDlsABtbQgAbW0gAG1tEABtbNn4AG1s1fgAbW0MAG1tBAAoAG1tGAA0A";

// What a signal handler needs to give the terminal back; it can be handed nothing.
struct Restoration {
  termios modes = {};
  std::array<char, 128> sequences = {};
  size_t length = 0;
};
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): see above
Restoration restoration;

constexpr std::array kFatalSignals = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGXCPU};

extern "C" void give_terminal_back(int signal) {
  // Nothing can be done where that fails.
  [[maybe_unused]] const ssize_t written =
      ::write(STDOUT_FILENO, restoration.sequences.data(), restoration.length);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &restoration.modes);
  // SA_RESETHAND: the second time it ends dlprobe as it would have the first time.
  ::raise(signal);
}

void remember_terminal(const termios& modes) {
  restoration = {.modes = modes};
  for (const char* capability : {"sgr0", "cnorm", "rmkx", "rmcup"}) {
    const char* sequence = ::tigetstr(capability);
    // (char*)-1: it is no capability of this kind.
    if (sequence == nullptr || std::bit_cast<intptr_t>(sequence) == -1) continue;
    const size_t size = std::strlen(sequence);
    if (restoration.length + size > restoration.sequences.size()) continue;
    std::memcpy(restoration.sequences.data() + restoration.length, sequence, size);
    restoration.length += size;
  }
}

void handle_fatal_signals(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : kFatalSignals)
    ::sigaction(signal, &action, nullptr);
}

SCREEN* open_curses() {
  if (SCREEN* screen = ::newterm(nullptr, stdout, stdin)) return screen;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  ::setenv("TERMINFO", kFallback, 1);
  return ::newterm(kFallbackName, stdout, stdin);
}

std::optional<char> key_of(int code) {
  switch (code) {
    case ERR:
      return std::nullopt;
    case KEY_UP:
      return 'k';
    case KEY_DOWN:
      return 'j';
    case KEY_HOME:
      return 'g';
    case KEY_END:
      return 'G';
    case KEY_PPAGE:
      return kPageUpKey;
    case KEY_NPAGE:
      return kPageDownKey;
    case KEY_ENTER:
    case '\r':
      return kEnterKey;
    case KEY_RESIZE:
      return kRedrawKey;
    default:
      // What has no meaning here is no key to act on, but one that was pressed.
      return code > 0 && code < 128 ? static_cast<char>(code) : '\0';
  }
}

class Terminal final : public Screen {
 public:
  Terminal(SCREEN* screen, const termios& modes) : screen_(screen) {
    remember_terminal(modes);
    handle_fatal_signals(give_terminal_back);
    ::cbreak();
    ::noecho();
    ::nonl();
    ::nodelay(stdscr, TRUE);
    ::keypad(stdscr, TRUE);
    ::set_escdelay(25);
    ::curs_set(0);
    if (!is_colorful(STDOUT_FILENO) || !::has_colors()) return;
    ::start_color();
    ::use_default_colors();
    ::init_pair(kAlarmPair, COLOR_RED, -1);
    alarm_ |= COLOR_PAIR(kAlarmPair);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() override {
    ::endwin();
    ::delscreen(screen_);
    handle_fatal_signals(SIG_DFL);
  }

  size_t columns() const override { return static_cast<size_t>(getmaxx(stdscr)); }
  size_t lines() const override { return static_cast<size_t>(getmaxy(stdscr)); }
  int descriptor() const override { return STDIN_FILENO; }

  void draw(const std::vector<FrameLine>& shown) override {
    ::erase();
    for (size_t i = 0; i < shown.size() && i < lines(); ++i) {
      const auto y = static_cast<int>(i);
      const attr_t style = attributes_of(shown[i].style);
      ::attrset(static_cast<int>(style));
      mvaddstr(y, 0, in_charset(shown[i].text).c_str());
      if (shown[i].style == FrameStyle::kSelected || shown[i].style == FrameStyle::kColumns)
        mvchgat(y, 0, -1, style, 0, nullptr);
    }
    ::attrset(A_NORMAL);
    ::refresh();
  }

  std::optional<char> key() override {
    if (const auto key = key_of(::getch())) return key;
    pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const bool is_over = ::poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR)) != 0;
    return is_over ? std::optional(kHangUp) : std::nullopt;
  }

 private:
  static constexpr short kAlarmPair = 1;

  attr_t attributes_of(FrameStyle style) const {
    switch (style) {
      case FrameStyle::kPlain:
        break;
      case FrameStyle::kHead:
        return A_BOLD;
      case FrameStyle::kColumns:
        return A_UNDERLINE;
      case FrameStyle::kSelected:
        return A_REVERSE;
      case FrameStyle::kAlarm:
        return alarm_;
    }
    return A_NORMAL;
  }

  // A terminal of another charset would take each byte of UTF-8 for a character.
  static std::string in_charset(const std::string& text) {
    if (MB_CUR_MAX > 1) return text;
    std::string plain;
    for (const char character : text) {
      const auto byte = static_cast<unsigned char>(character);
      const bool continues = (byte & 0xC0U) == 0x80U;
      if (!continues) plain += byte < 0x80U ? character : '?';
    }
    return plain;
  }

  SCREEN* screen_;
  attr_t alarm_ = A_BOLD;
};

}  // namespace

Expected<std::unique_ptr<Screen>> open_terminal() {
  termios modes = {};
  if (::isatty(STDOUT_FILENO) != 1 || ::tcgetattr(STDIN_FILENO, &modes) != 0)
    return failure(ErrorCode::kInvalid, "stdin and stdout are no terminal: use --once");
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  std::setlocale(LC_CTYPE, "");
  SCREEN* screen = open_curses();
  if (screen == nullptr)
    return failure(ErrorCode::kInvalid, "this terminal cannot be used as a screen: use --once");
  return std::make_unique<Terminal>(screen, modes);
}

}  // namespace dlprobe
