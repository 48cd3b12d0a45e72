// Every rule is shown code that breaks it, and code that looks similar and does not.
#include "tests/tidy/rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rehearse::tidy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> rules_of(const Findings& findings) {
  std::vector<std::string> rules;
  for (const Finding& finding : findings) rules.push_back(finding.rule);
  return rules;
}

/// The rules that one file breaks, other than the missing README.
std::vector<std::string> broken(const std::string& path, const std::string& text) {
  Findings findings = check({{parse(path, text)}, {}});
  std::erase_if(findings, [](const Finding& finding) { return finding.rule == "no-readme"; });
  return rules_of(findings);
}

const auto kBannedName = ElementsAre("banned-name");

// Each kind of banned name is caught in shared code, with or without what stands around it.
TEST(BannedNames, AreCaughtInSharedCode) {
  for (const std::string line :
       {"std::thread t(f);", "std::mutex m;", "std::lock_guard<M> l(m);", "std::atomic<int> n;",
        "auto now = std::chrono::steady_clock::now();", "using C = std::chrono::system_clock;",
        "int n = rand();", "return std::rand();", "int s = socket(1, 2, 3);", "else sleep(1);",
        "auto e = ::getenv(\"A\");", "std::this_thread::yield();", "std::random_device d;",
        "torch::manual_seed(1);", "at::launch(f);", "std::mt19937 g;", "auto p = fork();"}) {
    EXPECT_THAT(broken("runtime/rpc/a.cpp", line), kBannedName) << line;
  }
}

// The message names what to use instead.
TEST(BannedNames, AreReportedWithTheirReplacement) {
  Findings findings;
  check_banned_names(parse("sim/a.cpp", "\n\nauto t = std::chrono::steady_clock::now();"),
                     findings);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].line, 3);
  EXPECT_THAT(findings[0].message, testing::HasSubstr("Clock&"));
}

// Members and declarations with such a name, comments, strings and longer names are not calls.
TEST(BannedNames, AreNotSeenWhereTheyMeanSomethingElse) {
  for (const std::string line :
       {"clock.sleep(1);", "clock->time();", "void sleep(int ms);", "// std::thread is banned",
        "auto s = \"std::mutex\";", "int socket_count = 0;", "using T = my::thread;",
        "auto r = R\"(rand())\";", "Physics::time(now);", "int rand = 1'000;"}) {
    EXPECT_THAT(broken("runtime/rpc/a.cpp", line), IsEmpty()) << line;
  }
}

// What touches the outside world may use it, and only the application reads the environment.
TEST(BannedNames, DependOnTheFolder) {
  EXPECT_THAT(broken("runtime/real/a.cpp", "int s = socket(1, 2, 3);"), IsEmpty());
  EXPECT_THAT(broken("runtime/real/a.cpp", "int n = rand();"), kBannedName);
  EXPECT_THAT(broken("app/a.cpp", "auto e = getenv(\"A\");"), IsEmpty());
  EXPECT_THAT(broken("app/a.cpp", "std::random_device d;"), IsEmpty());
  EXPECT_THAT(broken("harness/a.cpp", "auto e = getenv(\"A\");"), kBannedName);
  EXPECT_THAT(broken("tests/rpc/a.cpp", "std::thread t(f);"), IsEmpty());
}

// A comment with the rule's name and a reason lets a line pass; without a reason it does not.
TEST(Findings, CanBeAllowedWithAReason) {
  EXPECT_THAT(broken("sim/a.cpp", "// tidy: banned-name: only printed\nint n = rand();"),
              IsEmpty());
  EXPECT_THAT(broken("sim/a.cpp", "int n = rand();  // tidy: banned-name: only printed"),
              IsEmpty());
  EXPECT_THAT(broken("sim/a.cpp", "int n = rand();  // tidy: banned-name: "), kBannedName);
  EXPECT_THAT(broken("sim/a.cpp", "int n = rand();  // tidy: long-file: no"), kBannedName);
}

// The exception must leave the block or be kept: by a throw, or in an exception_ptr.
TEST(CatchAll, MustNotSwallow) {
  const auto in = [](const std::string& body) {
    return broken("harness/a.cpp", "void f() { try { g(); } catch (...) { " + body + " } h(); }");
  };
  EXPECT_THAT(in(""), ElementsAre("swallowed-exception"));
  EXPECT_THAT(in("log(\"throw\"); if (a) { b(); }"), ElementsAre("swallowed-exception"));
  EXPECT_THAT(in("clean(); throw;"), IsEmpty());
  EXPECT_THAT(in("error_ = std::current_exception();"), IsEmpty());
  EXPECT_THAT(in("return Failure{Code::remote_exception, \"unknown\"};"), IsEmpty());
}

// Variables with static lifetime must be constant; functions and constants are no state.
TEST(Statics, MustBeConstant) {
  for (const std::string line :
       {"static int count = 0;", "static std::map<int, F(int)> cache;", "thread_local int depth;",
        "struct A { inline static int n{1}; };", "static const char* name = \"a\";"}) {
    EXPECT_THAT(broken("reports/a.cpp", line), ElementsAre("mutable-static")) << line;
  }
  for (const std::string line :
       {"static int f(int a);", "static constexpr int kOne = 1;",
        "static const std::set<int> kAll{1};", "static_assert(true);",
        "auto a = static_cast<int>(b);", "static const char* const kName = 0;"}) {
    EXPECT_THAT(broken("reports/a.cpp", line), IsEmpty()) << line;
  }
}

// Arrows point downward only, and a folder that the table does not know is an error.
TEST(IncludeArrows, PointDownward) {
  const auto kArrow = ElementsAre("include-arrow");
  EXPECT_THAT(broken("runtime/base/a.cpp", "#include \"runtime/world/net.hpp\""), kArrow);
  EXPECT_THAT(broken("runtime/rpc/a.cpp", "#include \"runtime/fiber/scheduler.hpp\""), kArrow);
  EXPECT_THAT(broken("runtime/autograd/a.hpp", "#pragma once\n#include \"sim/a.hpp\""), kArrow);
  EXPECT_THAT(broken("workloads/a.cpp", "#include \"harness/oracle.hpp\""), kArrow);
  EXPECT_THAT(broken("somewhere/a.cpp", ""), kArrow);
  EXPECT_THAT(broken("runtime/rpc/a.cpp", "#include \"runtime/fiber/task.hpp\""), IsEmpty());
  EXPECT_THAT(broken("runtime/rpc/a.cpp", "// #include \"sim/a.hpp\""), IsEmpty());
  EXPECT_THAT(broken("sim/a.cpp", "#include \"runtime/virtual/physics.hpp\""), IsEmpty());
}

// Parts without torch stay so, and the slow headers stay where programs are written.
TEST(TorchHeaders, StayWhereTheyBelong) {
  EXPECT_THAT(broken("runtime/world/a.cpp", "#include <ATen/core/Tensor.h>"),
              ElementsAre("torch-free"));
  EXPECT_THAT(broken("runtime/rpc/a.cpp", "#include <torch/torch.h>"),
              ElementsAre("wide-torch-header"));
  EXPECT_THAT(broken("runtime/rpc/a.cpp", "#include <ATen/core/Tensor.h>"), IsEmpty());
  EXPECT_THAT(broken("workloads/a.cpp", "#include <torch/torch.h>"), IsEmpty());
}

// Twenty-five files may include autograd's headers, one more is too many.
TEST(TorchHeaders, OfAutogradAreCounted) {
  const auto files = [](int count) {
    Tree tree;
    const Source one = parse("runtime/autograd/a.cpp", "#include <torch/csrc/autograd/function.h>");
    tree.sources.assign(static_cast<std::size_t>(count), one);
    Findings findings;
    check_autograd_header_count(tree, findings);
    return rules_of(findings);
  };
  EXPECT_THAT(files(25), IsEmpty());
  EXPECT_THAT(files(26), ElementsAre("autograd-headers"));
}

std::string lines(int count, const std::string& line) {
  std::string all;
  for (int i = 0; i < count; ++i) all += line + "\n";
  return all;
}

// 400 lines are a file, 401 are too long.
TEST(Shape, BoundsFiles) {
  EXPECT_THAT(broken("sim/a.cpp", lines(400, "int f();")), IsEmpty());
  EXPECT_THAT(broken("sim/a.cpp", lines(401, "int f();")), ElementsAre("long-file"));
}

// 70 lines from brace to brace are a function, 71 are too long, wherever the function stands.
TEST(Shape, BoundsFunctions) {
  const auto in = [](const std::string& head, int count, const std::string& tail) {
    return broken("sim/a.cpp", head + "{\n" + lines(count - 2, "  if (a) { g(); }") + "}" + tail);
  };
  for (const std::string head :
       {"void f() ", "namespace n { template <class T>\nvoid f(T a) const noexcept ",
        "class A : public B { int f() override ", "A::A(int a) : a_(a) ", "TEST(Topic, Name) "}) {
    EXPECT_THAT(in(head, 70, "}"), IsEmpty()) << head;
    EXPECT_THAT(in(head, 71, "}"), ElementsAre("long-function")) << head;
  }
  EXPECT_THAT(in("namespace n ", 100, ""), IsEmpty());
  EXPECT_THAT(in("const int kTable[] = ", 100, ";"), IsEmpty());
}

// A header that may be included twice is caught.
TEST(Shape, WantsPragmaOnce) {
  EXPECT_THAT(broken("sim/a.hpp", "int f();"), ElementsAre("no-pragma-once"));
  EXPECT_THAT(broken("sim/a.hpp", "#pragma once\nint f();"), IsEmpty());
}

// A part with sources and no README is named; one README speaks for all tests.
TEST(Readmes, AreWantedInEachPart) {
  Tree tree;
  tree.sources = {parse("sim/a.cpp", ""), parse("runtime/rpc/a.cpp", ""),
                  parse("tests/rpc/a.cpp", "")};
  tree.pages = {{"sim/README.md", ""}, {"tests/README.md", ""}};
  Findings findings;
  check_readmes(tree, findings);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].path, "runtime/rpc/README.md");
}

// Marks of unfinished work and paths of one machine are caught in sources and in other files.
TEST(Words, AreCaughtInEveryFile) {
  const std::string mark = std::string("TO") + "DO";
  EXPECT_THAT(broken("sim/a.cpp", "// " + mark), ElementsAre("unfinished"));
  EXPECT_THAT(rules_of(check({{}, {{"setup/a.sh", "cd /work" + std::string("/main")}}})),
              ElementsAre("private-path"));
  EXPECT_THAT(broken("sim/a.cpp", "// nothing to do"), IsEmpty());
}

}  // namespace
}  // namespace rehearse::tidy
