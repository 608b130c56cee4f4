#include "lib/base/function_name.h"

#include <gtest/gtest.h>

#include <string>

namespace dlprobe {
namespace {

struct Name {
  const char* symbol;
  const char* whole;
  const char* brief;
};

class FunctionNames : public testing::TestWithParam<Name> {};

TEST_P(FunctionNames, AreWholeOrShort) {
  EXPECT_EQ(whole_function_name(GetParam().symbol), GetParam().whole);
  EXPECT_EQ(short_function_name(GetParam().symbol), GetParam().brief);
}

INSTANTIATE_TEST_SUITE_P(
    C, FunctionNames,
    testing::Values(Name{"", "", ""}, Name{"GOMP_parallel", "GOMP_parallel", "GOMP_parallel"},
                    Name{"_PyEval_EvalFrameDefault.cold", "_PyEval_EvalFrameDefault.cold",
                         "_PyEval_EvalFrameDefault"},
                    Name{"foo.constprop.0.isra.0", "foo.constprop.0.isra.0", "foo"},
                    Name{"gemm_omp_driver_v2._omp_fn.1", "gemm_omp_driver_v2._omp_fn.1",
                         "gemm_omp_driver_v2._omp_fn.1"},
                    Name{"pthread_mutex_lock@@GLIBC_2.2.5", "pthread_mutex_lock@@GLIBC_2.2.5",
                         "pthread_mutex_lock"},
                    Name{"_Znonsense", "_Znonsense", "_Znonsense"}));

INSTANTIATE_TEST_SUITE_P(
    Cxx, FunctionNames,
    testing::Values(
        Name{"_ZNSt6vectorIiSaIiEE9push_backEOi",
             "std::vector<int, std::allocator<int> >::push_back(int&&)",
             "std::vector<>::push_back"},
        Name{"_ZN2cv8imdecodeERKNS_11_InputArrayEi", "cv::imdecode(cv::_InputArray const&, int)",
             "cv::imdecode"},
        // A template has its return type in the name.
        Name{"_Z3addIiET_S0_S0_", "int add<int>(int, int)", "add<>"},
        Name{"_ZNK3FoocvbEv", "Foo::operator bool() const", "Foo::operator bool"},
        Name{"_ZNK3FoocvSt6vectorIiSaIiEEEv",
             "Foo::operator std::vector<int, std::allocator<int> >() const",
             "Foo::operator std::vector<>"},
        Name{"_Znwm", "operator new(unsigned long)", "operator new"},
        Name{"_ZdaPv", "operator delete[](void*)", "operator delete[]"},
        Name{"_ZN3FoolsEi", "Foo::operator<<(int)", "Foo::operator<<"},
        Name{"_ZN3FooltIiEEbT_", "bool Foo::operator< <int>(int)", "Foo::operator<"},
        Name{"_ZN3FooptEv", "Foo::operator->()", "Foo::operator->"},
        Name{"_ZN3FooplEi", "Foo::operator+(int)", "Foo::operator+"},
        Name{"_ZN3FoossEi", "Foo::operator<=>(int)", "Foo::operator<=>"},
        Name{"_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo()",
             "(anonymous namespace)::foo"},
        Name{"_ZZ3fooivENKUliE_clEi", "foo(int, void)::{lambda(int)#1}::operator()(int) const",
             "foo::{lambda}::operator()"},
        Name{"_ZZNK3Foo3barEvENKUlvE_clEv", "Foo::bar() const::{lambda()#1}::operator()() const",
             "Foo::bar::{lambda}::operator()"},
        Name{"_ZThn8_N3Foo3barEv", "non-virtual thunk to Foo::bar()", "Foo::bar"},
        Name{"_Z3foov.cold", "foo() [clone .cold]", "foo"},
        Name{"_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc",
             "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
             ">::append(char const*)",
             "std::string::append"},
        Name{"_Z4nameB5cxx11v", "name[abi:cxx11]()", "name"},
        Name{"_ZN3FooIXgtLi1ELi2EEE3barEv", "Foo<((1)>(2))>::bar()", "Foo<>::bar"},
        Name{"_Z4callIXadL_Z3foovEEEvv", "void call<&(foo())>()", "call<>"}));

INSTANTIATE_TEST_SUITE_P(
    Rust, FunctionNames,
    testing::Values(
        Name{"_ZN10rayon_core8registry12in_worker17h0123456789abcdefE",
             "_ZN10rayon_core8registry12in_worker17h0123456789abcdefE",
             "_ZN10rayon_core8registry12in_worker17h0123456789abcdefE"},
        Name{"_ZN10rayon_core8registry9in_worker17h0123456789abcdefE",
             "rayon_core::registry::in_worker", "rayon_core::registry::in_worker"},
        Name{"_ZN45_$LT$a..B$LT$T$GT$$u20$as$u20$core..Clone$GT$5clone17h0123456789abcdefE",
             "<a::B<T> as core::Clone>::clone", "a::B<>::clone"}));

TEST(FunctionName, OfAnEndlessSymbolIsLeftAsItIs) {
  const std::string symbol = "_Z" + std::string(1 << 20, 'P');
  EXPECT_EQ(short_function_name(symbol), symbol);
}

}  // namespace
}  // namespace dlprobe
