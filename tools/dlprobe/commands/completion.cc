#include "tools/dlprobe/completion.h"

#include <memory>
#include <string>

#include "tools/dlprobe/command.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {

void add_completion_command(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("completion", "a script that completes dlprobe in your shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "the shell")
      ->check(one_of({"bash", "zsh", "fish"}))
      ->required();
  set_examples(*command,
               {{"completion bash > ~/.local/share/bash-completion/completions/dlprobe", ""},
                {"completion zsh > \"${fpath[1]}/_dlprobe\"", ""},
                {"completion fish > ~/.config/fish/completions/dlprobe.fish", ""}});
  command->callback([shell, &exit_status] { exit_status = print(completion_stub(*shell)); });
}

}  // namespace dlprobe
