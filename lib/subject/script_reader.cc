#include "lib/subject/script_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/escape.h"
#include "lib/model/recording_codec.h"
#include "lib/subject/ask_program.h"

namespace dlprobe {
namespace {

// The last line: a wrapper or a warning may have said something before.
std::string_view answer_in(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const std::string_view line = text.substr(text.rfind('\n') + 1);
  return line.starts_with('{') ? line : std::string_view();
}

std::unexpected<Error> no_answer(const std::string& interpreter, std::string_view text) {
  if (text.contains("nknown option")) {
    return failure(ErrorCode::kUnsupported,
                   interpreter + " is older than Python 3.6, whose programs can be read");
  }
  std::string_view line = text.substr(0, text.find('\n'));
  constexpr size_t kMostShown = 200;
  line = line.substr(0, kMostShown);
  return failure(ErrorCode::kUnsupported,
                 fmt::format("{} did not read the program; it said: {}", interpreter,
                             line.empty() ? "nothing" : escape_for_terminal(line)));
}

}  // namespace

std::vector<std::string> ScriptReader::with_interpreter(std::vector<std::string> argv) const {
  if (argv.empty() || parse_python_command(argv)) return argv;
  if (is_python_launcher(argv.front())) return argv;
  const Directory& root = *machine.root;
  std::string path = argv.front();
  if (!path.contains('/')) path = find_in_path(root, path, path_variable);
  if (path.empty()) return argv;
  std::string absolute = path;
  if (!path.starts_with('/')) {
    const auto folder = root.read_link("proc/self/cwd");
    if (!folder) return argv;
    absolute = *folder + "/" + path;
  }
  constexpr size_t kMostText = size_t{4} << 20;
  const auto text = root.read(absolute, kMostText);
  if (!text) return argv;
  std::vector<std::string> words = shebang_words(*text);
  if (words.empty()) return argv;
  words.push_back(path);
  words.insert(words.end(), argv.begin() + 1, argv.end());
  return parse_python_command(words) ? words : argv;
}

Expected<ScriptReading> ScriptReader::read(const std::vector<std::string>& argv) const {
  const std::vector<std::string> whole = with_interpreter(argv);
  DLP_TRY(const PythonCommand command, parse_python_command(whole));
  switch (command.program) {
    case PythonProgram::kInteractive:
      return failure(ErrorCode::kUnsupported,
                     "the command names no program that could be read; give it as a file: " +
                         whole[command.interpreter] + " train.py");
    case PythonProgram::kNone:
      return failure(ErrorCode::kUnsupported,
                     "the command runs no program: there is nothing to read");
    case PythonProgram::kScript:
    case PythonProgram::kModule:
    case PythonProgram::kCode:
    case PythonProgram::kStdin:
      break;
  }
  std::vector<std::string> question(
      whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(command.interpreter) + 1);
  for (const char* word : {"-I", "-S", "-B", "-W", "ignore", "-c"})
    question.emplace_back(word);
  const ScriptReaderSource source = script_reader_source();
  question.emplace_back(source.read);
  question.emplace_back(to_string(command.program));
  question.push_back(command.name);
  question.emplace_back(source.values);
  question.emplace_back(source.follow);
  DLP_TRY(const ProgramAnswer said,
          ask_program(question, *machine.clock, "read the program", limit));
  const std::string_view answer = answer_in(said.text);
  if (answer.empty()) return no_answer(whole[command.interpreter], said.text);
  DLP_TRY(ScriptReading reading, parse_script_reading(answer));
  if (reading.program.empty()) {
    if (!reading.file.empty())
      return failure(ErrorCode::kInvalid, fmt::format("{}: {}", reading.file, reading.error));
    return failure(ErrorCode::kUnsupported,
                   fmt::format("{} is Python {}; programs of 3.6 and newer can be read",
                               whole[command.interpreter], reading.python));
  }
  reading.at = machine.clock->now();
  return reading;
}

}  // namespace dlprobe
