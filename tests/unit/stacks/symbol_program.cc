/// A program to look up symbols in: what was built is also stripped and its symbols put elsewhere.
namespace sample {
namespace {
[[gnu::noinline]] int hidden(int value) {
  asm volatile("");
  return value + 1;
}
}  // namespace
[[gnu::noinline]] int shown(int value) {
  return hidden(value) + hidden(value + 1);
}
}  // namespace sample

int main(int argc, char** /*argv*/) {
  return sample::shown(argc) == 0 ? 1 : 0;
}
