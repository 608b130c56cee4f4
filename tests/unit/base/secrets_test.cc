#include "lib/base/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using testing::ElementsAre;

std::string masked(const std::string& argument) {
  return mask_secrets({argument})[0];
}

TEST(MaskSecrets, HidesTheValuesOfOptionsThatSpeakOfSecrets) {
  EXPECT_THAT(mask_secrets({"train", "--api-key", "abc", "--lr", "0.1"}),
              ElementsAre("train", "--api-key", "***", "--lr", "0.1"));
  EXPECT_EQ(masked("--password=abc"), "--password=***");
  EXPECT_EQ(masked("WANDB_TOKEN=abc"), "WANDB_TOKEN=***");
  EXPECT_EQ(masked("Authorization: Bearer x"), "Authorization:***");
  EXPECT_THAT(mask_secrets({"--token", "--verbose"}), ElementsAre("--token", "--verbose"));
}

TEST(MaskSecrets, HidesTheUserOfAUrl) {
  EXPECT_EQ(masked("https://me:pw@host/path"), "https://***@host/path");
  EXPECT_EQ(masked("https://host/a@b"), "https://host/a@b");
  EXPECT_EQ(masked("--url=s3://id:pw@bucket"), "--url=s3://***@bucket");
}

TEST(MaskSecrets, HidesValuesInsideOfAnArgument) {
  EXPECT_EQ(masked("https://x/?id=7&sig=S1&token=T1&n=3"), "https://x/?id=7&sig=***&token=***&n=3");
  EXPECT_EQ(masked("https://x/y?X-Amz-Signature=abc"), "https://x/y?X-Amz-Signature=***");
  EXPECT_EQ(masked("Server=db;Pwd=SQL1;Port=1"), "Server=db;Pwd=***;Port=1");
  EXPECT_EQ(masked("env=API_TOKEN=t9"), "env=API_TOKEN=***");
  EXPECT_EQ(masked("https://hooks.slack.com/services/T0/B0/xyz"),
            "https://hooks.slack.com/services/***");
  EXPECT_THAT(mask_secrets({"curl", "-u", "bob:pw", "-u", "bob"}),
              ElementsAre("curl", "-u", "bob:***", "-u", "bob"));
  EXPECT_EQ(masked("--design=round"), "--design=round");
}

TEST(MaskSecrets, HidesEachOfSeveral) {
  EXPECT_EQ(masked("https://hooks.slack.com/services/T0/B0/x, https://hooks.slack.com/services/T1"),
            "https://hooks.slack.com/services/*** https://hooks.slack.com/services/***");
  EXPECT_EQ(masked("a://b:c@d,e://f:g@h"), "a://***@d,e://***@h");
  EXPECT_EQ(masked("ahf_-hf_Q8Zr1Tg5Xw2Lm9Vb4"), "***");
  EXPECT_EQ(masked("echo ghp_Q8Zr1Tg5Xw2Lm9Vb4; export API_KEY=k"), "echo ***; export API_KEY=***");
  EXPECT_EQ(mask_tokens("xghp_-ghp_Q8Zr1Tg5Xw2Lm9Vb4.json"), "xghp_-***.json");
}

// A quarter of a megabyte takes minutes where each sign has all that follows searched.
TEST(MaskSecrets, TakesAsLongAsTheTextIs) {
  constexpr size_t kBytes = size_t{1} << 18U;
  for (const std::string_view part : {"a=", "a:", "key: ", "://", "://a@"}) {
    std::string text;
    while (text.size() < kBytes)
      text += part;
    EXPECT_GE(masked(text).size(), kBytes / 2);
  }
}

TEST(MaskSecrets, HidesPasswordsOfKnownClients) {
  EXPECT_THAT(mask_secrets({"mysql", "-u", "bob", "-phunter2", "-p", "db"}),
              ElementsAre("mysql", "-u", "bob", "-p***", "-p", "db"));
  EXPECT_THAT(mask_secrets({"/usr/bin/sshpass", "-p", "hunter2", "ssh", "-p", "22"}),
              ElementsAre("/usr/bin/sshpass", "-p", "***", "ssh", "-p", "***"));
  EXPECT_THAT(mask_secrets({"redis-cli", "-a", "hunter2", "ping"}),
              ElementsAre("redis-cli", "-a", "***", "ping"));
  EXPECT_THAT(mask_secrets({"docker", "login", "-u", "bob", "-p", "hunter2"}),
              ElementsAre("docker", "login", "-u", "bob", "-p", "***"));
}

TEST(MaskSecrets, ElsewhereTheSameLetterIsAPort) {
  EXPECT_THAT(mask_secrets({"docker", "run", "-p", "8080:80"}),
              ElementsAre("docker", "run", "-p", "8080:80"));
  EXPECT_THAT(mask_secrets({"train", "-p", "8080", "-a", "x"}),
              ElementsAre("train", "-p", "8080", "-a", "x"));
  EXPECT_THAT(mask_secrets({"psql", "-p", "5432"}), ElementsAre("psql", "-p", "5432"));
}

TEST(MaskSecrets, HidesSecretsOfALineInOneArgument) {
  EXPECT_THAT(mask_secrets({"bash", "-c", "train --password hunter2 --lr 1; mysql -ppw"}),
              ElementsAre("bash", "-c", "train --password *** --lr 1; mysql -p***"));
  EXPECT_EQ(masked("curl -u bob:pw --token \"a b\" x"), "curl -u bob:*** --token \"***\" x");
  EXPECT_EQ(masked("error: argument --token: expected one argument"),
            "error: argument --token: expected one argument");
}

TEST(MaskSecrets, KnowsTheShapesOfTokens) {
  EXPECT_EQ(masked("hf_abcdefghijklmnopqrst"), "***");
  EXPECT_EQ(masked("x=AKIAIOSFODNN7EXAMPLE,y"), "x=***,y");
  EXPECT_EQ(masked("q8Zr1Tg5Xw2Lm9Vb4Kc7Np3Sd"), "***");
  EXPECT_EQ(masked("QwErTyUiOpAs-DfGhJkLzXc-1234"), "***");
  EXPECT_EQ(masked("3f2504e0-4f89-11d3-9a0c-0305e82c3301"), "***");
}

TEST(MaskSecrets, HidesValuesOfJsonHeadersAndVariables) {
  EXPECT_EQ(masked(R"({"user":"bob","password":"pw9", "n": 4, 'api_key': 'k'})"),
            R"({"user":"bob","password":"***", "n": 4, 'api_key': '***'})");
  EXPECT_EQ(masked("--header=X-Api-Key: k25 k26"), "--header=X-Api-Key: ***");
  EXPECT_EQ(masked("--pwd=pw10"), "--pwd=***");
  EXPECT_EQ(masked("MYSQL_PWD=k26"), "MYSQL_PWD=***");
  EXPECT_THAT(mask_secrets({"--bearer", "b13"}), ElementsAre("--bearer", "***"));
  EXPECT_EQ(masked("x={token:abc}"), "x={token:***");
}

TEST(MaskSecrets, TakesANameByItsWords) {
  EXPECT_THAT(
      mask_secrets({"--tokenizer",  "gpt2", "--author",     "ann",    "--keypoints",  "17",
                    "--passes",     "2",    "--pin-memory", "x1",     "--max-tokens", "9z",
                    "--image-key",  "jpg",  "--key-dim",    "64",     "--bypass",     "a1",
                    "--token-type", "bpe",  "--key-file",   "/k.pem", "--session",    "a7"}),
      ElementsAre("--tokenizer", "gpt2", "--author", "ann", "--keypoints", "17", "--passes", "2",
                  "--pin-memory", "x1", "--max-tokens", "9z", "--image-key", "jpg", "--key-dim",
                  "64", "--bypass", "a1", "--token-type", "bpe", "--key-file", "/k.pem",
                  "--session", "***"));
  EXPECT_THAT(mask_secrets({"--pin", "1", "-pw", "a", "--card", "4", "--otp", "5", "--senha", "b",
                            "--dbPassword", "c", "--HFTOKEN", "d", "--token-prod", "h2"}),
              ElementsAre("--pin", "***", "-pw", "***", "--card", "***", "--otp", "***", "--senha",
                          "***", "--dbPassword", "***", "--HFTOKEN", "***", "--token-prod", "***"));
}

TEST(MaskSecrets, HidesLongHexadecimalNumbers) {
  const std::string half = "0123456789abcdef";
  EXPECT_EQ(masked(half + half), "***");
  EXPECT_EQ(masked("--id=" + half + half), "--id=***");
  EXPECT_EQ(masked("--id=" + half), "--id=" + half);
  EXPECT_EQ(masked("00000000-1111-2222-3333-444444444444"), "***");
}

TEST(MaskSecrets, HidesCommandsOfAProgram) {
  EXPECT_EQ(masked("import os; os.system('mysql -phunter2 db')"),
            "import os; os.system('mysql -p*** db')");
  EXPECT_EQ(masked(R"(run(["train", "--password", "hunter2", 'x']))"),
            R"(run(["train", "--password", "***", 'x']))");
}

TEST(MaskSecrets, LeavesWhatAPersonHasToRead) {
  for (const std::string plain :
       {"/usr/bin/python3.11", "--num-workers=8", "train_resnet50_imagenet.py",
        "--data=/data/imagenet/train",
        "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)",
        "--sample-shape=3x224x224", "train_augmentation_pipeline_v2",
        "unexpected key: layer1.weight", "tokenizers: fork", "{\"lr\": 3}",
        "KeyError: 'learning_rate'", "/job/train_model_2024_experiment_b.py"}) {
    EXPECT_EQ(masked(plain), plain);
  }
}

}  // namespace
}  // namespace dlprobe
