#include "lib/base/function_name.h"

#include <gtest/gtest.h>

#include <string>

namespace dlprobe {
namespace {

struct Name {
  const char* symbol;
  const char* brief;
};

class FunctionNames : public testing::TestWithParam<Name> {};

TEST_P(FunctionNames, AreShort) {
  EXPECT_EQ(short_function_name(GetParam().symbol), GetParam().brief);
}

INSTANTIATE_TEST_SUITE_P(
    C, FunctionNames,
    testing::Values(Name{"", ""}, Name{"GOMP_parallel", "GOMP_parallel"},
                    Name{"_PyEval_EvalFrameDefault.cold", "_PyEval_EvalFrameDefault"},
                    Name{"foo.constprop.0.isra.0", "foo"},
                    Name{"gemm_omp_driver_v2._omp_fn.1", "gemm_omp_driver_v2._omp_fn.1"},
                    Name{"pthread_mutex_lock@@GLIBC_2.2.5", "pthread_mutex_lock"},
                    Name{"_Znonsense", "_Znonsense"}));

INSTANTIATE_TEST_SUITE_P(
    Cxx, FunctionNames,
    testing::Values(Name{"_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<>::push_back"},
                    Name{"_ZN2cv8imdecodeERKNS_11_InputArrayEi", "cv::imdecode"},
                    // A template has its return type in the name.
                    Name{"_Z3addIiET_S0_S0_", "add<>"}, Name{"_ZNK3FoocvbEv", "Foo::operator bool"},
                    Name{"_ZNK3FoocvSt6vectorIiSaIiEEEv", "Foo::operator std::vector<>"},
                    Name{"_Znwm", "operator new"}, Name{"_ZdaPv", "operator delete[]"},
                    Name{"_ZN3FoolsEi", "Foo::operator<<"},
                    Name{"_ZN3FooltIiEEbT_", "Foo::operator<"},
                    Name{"_ZN3FooptEv", "Foo::operator->"}, Name{"_ZN3FooplEi", "Foo::operator+"},
                    Name{"_ZN3FoossEi", "Foo::operator<=>"},
                    Name{"_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo"},
                    Name{"_ZZ3fooivENKUliE_clEi", "foo::{lambda}::operator()"},
                    Name{"_ZZNK3Foo3barEvENKUlvE_clEv", "Foo::bar::{lambda}::operator()"},
                    Name{"_ZThn8_N3Foo3barEv", "Foo::bar"}, Name{"_Z3foov.cold", "foo"},
                    Name{"_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc",
                         "std::string::append"},
                    Name{"_Z4nameB5cxx11v", "name"},
                    Name{"_ZN3FooIXgtLi1ELi2EEE3barEv", "Foo<>::bar"},
                    Name{"_Z4callIXadL_Z3foovEEEvv", "call<>"}));

INSTANTIATE_TEST_SUITE_P(
    Rust, FunctionNames,
    testing::Values(
        Name{"_ZN10rayon_core8registry12in_worker17h0123456789abcdefE",
             "_ZN10rayon_core8registry12in_worker17h0123456789abcdefE"},
        Name{"_ZN10rayon_core8registry9in_worker17h0123456789abcdefE",
             "rayon_core::registry::in_worker"},
        Name{"_ZN45_$LT$a..B$LT$T$GT$$u20$as$u20$core..Clone$GT$5clone17h0123456789abcdefE",
             "a::B<>::clone"}));

TEST(FunctionName, OfAnEndlessSymbolIsLeftAsItIs) {
  const std::string symbol = "_Z" + std::string(1 << 20, 'P');
  EXPECT_EQ(short_function_name(symbol), symbol);
}

}  // namespace
}  // namespace dlprobe
