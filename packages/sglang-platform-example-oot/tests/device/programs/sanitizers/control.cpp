// Defects on purpose: a sanitizer that does not tell of them would tell of none of ours.
#include <cstdlib>
#include <thread>

extern "C" int past_the_end() {
  volatile char* memory = static_cast<char*>(std::malloc(8));
  const int value = memory[8];
  std::free(const_cast<char*>(memory));
  return value;
}

extern "C" int overflow(int large) {
  return large + large;
}

extern "C" int race() {
  static int shared = 0;
  std::thread other([] { ++shared; });
  ++shared;
  other.join();
  return shared;
}
