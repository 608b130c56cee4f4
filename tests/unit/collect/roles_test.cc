#include "lib/collect/tree/roles.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/must.h"

namespace dlprobe {
namespace {

constexpr uint64_t bit(int signal) {
  return uint64_t{1} << static_cast<unsigned>(signal - 1);
}
constexpr uint64_t kTorchHandlers =
    bit(SIGBUS) | bit(SIGSEGV) | bit(SIGFPE) | bit(SIGTERM) | bit(SIGINT);

ProcessKey key(int32_t pid) {
  return {.pid = pid, .start_ticks = static_cast<uint64_t>(pid)};
}

RoleFacts process(int32_t pid, int32_t parent, std::vector<std::string> cmdline) {
  RoleFacts facts;
  facts.key = key(pid);
  if (parent != 0) facts.parent = key(parent);
  facts.comm = "python3";
  facts.exe_name = "python3.11";
  facts.cmdline = std::move(cmdline);
  return facts;
}

RoleFacts program(int32_t pid, int32_t parent, std::string name) {
  RoleFacts facts = process(pid, parent, {name});
  facts.exe_name = name;
  facts.comm = std::move(name);
  return facts;
}

RoleFacts forked_worker(int32_t pid, int32_t parent) {
  RoleFacts facts = process(pid, parent, {"python3", "train.py"});
  facts.signals_caught = kTorchHandlers;
  facts.forked_without_exec = true;
  return facts;
}

const std::vector<std::string> kTrain = {"python3", "train.py"};
const std::vector<std::string> kSpawned = {
    "python3", "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)",
    "--multiprocessing-fork"};
const std::vector<std::string> kTracker = {
    "python3", "-c", "from multiprocessing.resource_tracker import main;main(4)"};
const std::vector<std::string> kForkserverCommand = {
    "python3", "-c", "from multiprocessing.forkserver import main; main(6, 8)"};

TEST(Roles, ForkedWorkersAreKnownByTorchsHandlers) {
  const std::vector facts = {process(10, 0, kTrain), forked_worker(11, 10), forked_worker(12, 10)};
  const auto roles = assign_roles(facts, key(10));
  EXPECT_EQ(roles[0].role, Role::kTrainer);
  EXPECT_EQ(roles[1].role, Role::kWorker);
  EXPECT_EQ(roles[1].start_method, StartMethod::kFork);
  EXPECT_NE(roles[1].basis.find("SIGBUS"), std::string::npos);
}

TEST(Roles, ALauncherAboveTheTrainerIsNotTheTrainer) {
  const std::vector facts = {program(5, 0, "bash"), process(6, 5, {"python3", "torchrun"}),
                             process(10, 6, kTrain), forked_worker(11, 10)};
  const auto roles = assign_roles(facts, key(5));
  EXPECT_EQ(roles[0].role, Role::kLauncher);
  EXPECT_EQ(roles[1].role, Role::kLauncher);
  EXPECT_EQ(roles[2].role, Role::kTrainer);
  EXPECT_EQ(roles[3].role, Role::kWorker);
}

TEST(Roles, SpawnedWorkersAndTheirTracker) {
  const std::vector facts = {process(10, 0, kTrain), process(11, 10, kTracker),
                             process(12, 10, kSpawned)};
  const auto roles = assign_roles(facts, key(10));
  EXPECT_EQ(roles[0].role, Role::kTrainer);
  EXPECT_EQ(roles[1].role, Role::kResourceTracker);
  EXPECT_EQ(roles[2].role, Role::kWorker);
  EXPECT_EQ(roles[2].start_method, StartMethod::kSpawn);
}

TEST(Roles, AZombieHasNothingButItsName) {
  std::vector facts = {process(10, 0, kTrain), process(11, 10, {}), program(12, 10, "sh")};
  for (const size_t dead : {1U, 2U}) {
    facts[dead].exe_name.clear();
    facts[dead].cmdline.clear();
  }
  const auto roles = assign_roles(facts, key(10));
  EXPECT_EQ(roles[1].role, Role::kWorker);
  EXPECT_EQ(roles[2].role, Role::kOther);
}

TEST(Roles, TheForkserversWorkersWorkForTheTrainer) {
  RoleFacts worker = process(13, 12, kForkserverCommand);
  worker.forked_without_exec = true;
  worker.signals_caught = kTorchHandlers;
  const std::vector facts = {process(10, 0, kTrain), process(11, 10, kTracker),
                             process(12, 10, kForkserverCommand), worker};
  const auto roles = assign_roles(facts, key(10));
  EXPECT_EQ(roles[0].role, Role::kTrainer);
  EXPECT_EQ(roles[2].role, Role::kForkserver);
  EXPECT_EQ(roles[3].role, Role::kWorker);
  EXPECT_EQ(roles[3].start_method, StartMethod::kForkserver);
}

TEST(Roles, ASpawnedRankWithWorkersIsATrainer) {
  const std::vector facts = {process(9, 0, {"python3", "ddp.py"}), process(10, 9, kSpawned),
                             process(11, 9, kSpawned), forked_worker(12, 10),
                             forked_worker(13, 11)};
  const auto roles = assign_roles(facts, key(9));
  EXPECT_EQ(roles[0].role, Role::kLauncher);
  EXPECT_EQ(roles[1].role, Role::kTrainer);
  EXPECT_EQ(roles[2].role, Role::kTrainer);
  EXPECT_EQ(roles[3].role, Role::kWorker);
}

RoleFacts rank(RoleFacts facts, std::string job, int32_t number) {
  facts.rank = JobRank{.job = std::move(job), .rank = number, .world_size = 2, .source = "RANK"};
  return facts;
}

TEST(Roles, RanksAreTrainersWithoutWorkersToo) {
  const std::vector facts = {
      process(10, 0, {"python3", "torchrun"}), rank(process(11, 10, kTrain), "n1:1", 0),
      rank(process(12, 10, kTrain), "n1:1", 1), rank(forked_worker(13, 12), "n1:1", 1),
      rank(process(14, 11, {"python3", "tool.py"}), "n1:1", 0)};
  const auto roles = assign_roles(facts, key(10));
  EXPECT_EQ(roles[0].role, Role::kLauncher);
  EXPECT_EQ(roles[1].role, Role::kTrainer);
  EXPECT_EQ(roles[2].role, Role::kTrainer);
  EXPECT_EQ(roles[3].role, Role::kWorker);
  EXPECT_EQ(roles[4].role, Role::kOther) << "it has the variables of its rank";
}

TEST(Roles, ALauncherThatIsARankOfAnotherJobIsNoTrainer) {
  const std::vector facts = {rank(process(10, 0, {"python3", "torchrun"}), "7:0", 0),
                             rank(process(11, 10, kTrain), "n1:1", 0),
                             rank(process(12, 10, kTrain), "n1:1", 1)};
  const auto roles = assign_roles(facts, key(10));
  EXPECT_EQ(roles[0].role, Role::kLauncher);
  EXPECT_EQ(roles[1].role, Role::kTrainer);
}

TEST(Roles, ATrainerThatCatchesTheSameSignalsIsNoWorker) {
  // faulthandler and a SIGTERM handler of a scheduler plug-in.
  RoleFacts trainer = process(10, 5, kTrain);
  trainer.signals_caught = kTorchHandlers;
  const std::vector facts = {program(5, 0, "bash"), trainer, forked_worker(11, 10)};
  const auto roles = assign_roles(facts, key(5));
  EXPECT_EQ(roles[1].role, Role::kTrainer);
  EXPECT_EQ(roles[2].role, Role::kWorker);
}

TEST(Roles, AShmManagerIsKnownByItsProgramWhereverItIs) {
  const std::vector facts = {process(10, 0, kTrain), forked_worker(11, 10),
                             program(12, 11, "torch_shm_manager")};
  EXPECT_EQ(assign_roles(facts, key(10))[2].role, Role::kShmManager);
}

TEST(Roles, TheReferenceLoadersProcessesAreKnownByNameAndProgram) {
  RoleFacts loader = program(10, 0, "dlprobe-reference-loader");
  loader.comm = "dlp-loader";
  RoleFacts worker = program(11, 10, "dlprobe-reference-loader");
  worker.comm = "dlp-worker";
  worker.forked_without_exec = false;
  RoleFacts impostor = program(12, 10, "sleep");
  impostor.comm = "dlp-worker";
  const std::vector facts = {loader, worker, impostor};
  const auto roles = assign_roles(facts, key(10));
  EXPECT_EQ(roles[0].role, Role::kTrainer);
  EXPECT_EQ(roles[1].role, Role::kWorker);
  EXPECT_EQ(roles[1].start_method, StartMethod::kSpawn);
  EXPECT_EQ(roles[2].role, Role::kOther);
}

TEST(Roles, WithoutWorkersTheTopmostPythonIsTheTrainer) {
  const std::vector facts = {program(5, 0, "bash"), process(10, 5, kTrain)};
  const auto roles = assign_roles(facts, key(5));
  EXPECT_EQ(roles[0].role, Role::kLauncher);
  EXPECT_EQ(roles[1].role, Role::kTrainer);
  const std::vector shell = {program(5, 0, "bash"), program(6, 5, "sleep")};
  EXPECT_EQ(assign_roles(shell, key(5))[0].role, Role::kTrainer);
}

TEST(Roles, AnOrphanIsNoTrainer) {
  RoleFacts orphan = program(10, 0, "python3.11");
  orphan.orphaned = true;
  const auto answer = assign_roles(std::vector{orphan}, orphan.key)[0];
  EXPECT_EQ(answer.role, Role::kOther);
  EXPECT_EQ(answer.start_method, StartMethod::kFork);
  orphan.comm = "pt_data_worker";
  EXPECT_EQ(assign_roles(std::vector{orphan}, orphan.key)[0].role, Role::kWorker);
}

TEST(Roles, AShellIsNotAPartOfItsParentsLoader) {
  const RoleFacts shell = program(5, 4, "bash");
  EXPECT_FALSE(belongs_to_parent(process(10, 5, kTrain), shell));
  EXPECT_FALSE(belongs_to_parent(shell, program(4, 1, "sshd")));
  EXPECT_TRUE(must(belongs_to_parent(forked_worker(11, 10), process(10, 5, kTrain))).certain);
}

}  // namespace
}  // namespace dlprobe
