// Names with another way to do it, and code that hides state or errors.
#include <algorithm>
#include <array>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace rehearse::tidy {
namespace {

enum class Where {
  shared,      ///< code that runs in every world, and the virtual worlds themselves
  everywhere,  ///< but tests, benches and examples
  but_app,
};

enum class As { name, call };

struct Ban {
  std::string_view name;
  As as;
  Where where;
  std::string_view instead;
};

constexpr std::string_view kThreads = "workers are single-threaded: spawn a task (world/tasks.hpp)";
constexpr std::string_view kLocks = "tasks of a worker never run at once: plain data is enough";
constexpr std::string_view kClocks = "take Clock& and ask now(): real time does not exist in sim";
constexpr std::string_view kRandom = "use a rehearse::Random that was handed in (base/random.hpp)";
constexpr std::string_view kSockets = "take Endpoint& or Net&: sockets live in runtime/real";
constexpr std::string_view kSleep = "use Clock::sleep_until, or wait for the event itself";
constexpr std::string_view kProcesses = "take Launcher&: processes are started in runtime/real";
constexpr std::string_view kEnvironment = "read the environment in app/ and hand the value down";
constexpr std::string_view kGenerators = "a task has its own generator: seed that one, not torch's";

constexpr std::array kBans = {
    Ban{"std::thread", As::name, Where::shared, kThreads},
    Ban{"std::jthread", As::name, Where::shared, kThreads},
    Ban{"std::async", As::name, Where::shared, kThreads},
    Ban{"pthread_create", As::call, Where::shared, kThreads},
    Ban{"at::launch", As::name, Where::everywhere, kThreads},
    Ban{"std::mutex", As::name, Where::shared, kLocks},
    Ban{"std::shared_mutex", As::name, Where::shared, kLocks},
    Ban{"std::recursive_mutex", As::name, Where::shared, kLocks},
    Ban{"std::lock_guard", As::name, Where::shared, kLocks},
    Ban{"std::unique_lock", As::name, Where::shared, kLocks},
    Ban{"std::scoped_lock", As::name, Where::shared, kLocks},
    Ban{"std::condition_variable", As::name, Where::shared, kLocks},
    Ban{"std::atomic", As::name, Where::shared, kLocks},
    Ban{"std::atomic_flag", As::name, Where::shared, kLocks},
    Ban{"std::promise", As::name, Where::shared, kLocks},
    Ban{"system_clock", As::name, Where::shared, kClocks},
    Ban{"steady_clock", As::name, Where::shared, kClocks},
    Ban{"high_resolution_clock", As::name, Where::shared, kClocks},
    Ban{"clock_gettime", As::call, Where::shared, kClocks},
    Ban{"gettimeofday", As::call, Where::shared, kClocks},
    Ban{"time", As::call, Where::shared, kClocks},
    Ban{"rand", As::call, Where::everywhere, kRandom},
    Ban{"srand", As::call, Where::everywhere, kRandom},
    Ban{"drand48", As::call, Where::everywhere, kRandom},
    Ban{"std::random_device", As::name, Where::but_app, kRandom},
    Ban{"std::mt19937", As::name, Where::everywhere, kRandom},
    Ban{"std::mt19937_64", As::name, Where::everywhere, kRandom},
    Ban{"std::default_random_engine", As::name, Where::everywhere, kRandom},
    Ban{"std::random_shuffle", As::name, Where::everywhere, kRandom},
    Ban{"manual_seed", As::call, Where::everywhere, kGenerators},
    Ban{"getDefaultCPUGenerator", As::call, Where::everywhere, kGenerators},
    Ban{"socket", As::call, Where::shared, kSockets},
    Ban{"socketpair", As::call, Where::shared, kSockets},
    Ban{"epoll_create1", As::call, Where::shared, kSockets},
    Ban{"sleep", As::call, Where::shared, kSleep},
    Ban{"usleep", As::call, Where::shared, kSleep},
    Ban{"nanosleep", As::call, Where::shared, kSleep},
    Ban{"std::this_thread", As::name, Where::shared, kSleep},
    Ban{"fork", As::call, Where::shared, kProcesses},
    Ban{"system", As::call, Where::everywhere, kProcesses},
    Ban{"popen", As::call, Where::everywhere, kProcesses},
    Ban{"getenv", As::call, Where::but_app, kEnvironment},
    Ban{"secure_getenv", As::call, Where::but_app, kEnvironment},
    Ban{"setenv", As::call, Where::but_app, kEnvironment},
};

/// Programs, and what tries the project out, may do as they like.
bool is_trial(const Source& source) {
  return source.is_under("tests") || source.is_under("bench") || source.is_under("examples");
}

bool is_shared(const Source& source) {
  return (source.is_under("runtime") && !source.is_under("runtime/real")) ||
         source.is_under("workloads") || source.is_under("sim");
}

bool applies(Where where, const Source& source) {
  if (is_trial(source)) return false;
  if (where == Where::shared) return is_shared(source);
  return where == Where::everywhere || !source.is_under("app");
}

std::vector<std::string> split_qualified(std::string_view name) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find("::", begin), name.size());
    parts.emplace_back(name.substr(begin, end - begin));
    begin = end + 2;
  }
  return parts;
}

/// `std::thread` is meant by `std::thread::id` too, and `steady_clock` however it is qualified.
bool is_named(const Name& name, std::string_view banned) {
  return !std::ranges::search(name.parts, split_qualified(banned)).empty();
}

/// A call of the C library's function, not of a member with its name, nor a declaration of one.
bool is_call(const Name& name, std::string_view banned) {
  if (name.parts.back() != banned || name.after != '(') return false;
  if (name.parts.size() == 2 && name.parts[0] != "std" && name.parts[0] != "torch" &&
      name.parts[0] != "at") {
    return false;
  }
  const bool is_member = name.before == '.' || name.before == '>' || name.before == '~';
  const bool is_declared = !name.previous_word.empty() && name.previous_word != "return" &&
                           name.previous_word != "else" && name.previous_word != "do";
  return !is_member && !is_declared;
}

bool breaks(const Ban& ban, const Name& name) {
  return ban.as == As::call ? is_call(name, ban.name) : is_named(name, ban.name);
}

std::size_t closing_brace(const std::string& code, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < code.size(); ++at) {
    if (code[at] == '{') ++depth;
    if (code[at] == '}' && --depth == 0) return at;
  }
  return code.size();
}

/// Also by telling it as the failure of what was called.
bool keeps_exception(std::string_view block) {
  constexpr std::array<std::string_view, 7> kKeepers = {
      "throw", "current_exception", "remote_exception", "abort", "terminate",
      "_exit", "REHEARSE_CHECK"};
  return std::ranges::any_of(kKeepers, [&](std::string_view keeper) {
    return block.find(keeper) != std::string_view::npos;
  });
}

std::size_t skip_template_arguments(const std::string& code, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < code.size(); ++at) {
    if (code[at] == '<') ++depth;
    if (code[at] == '>' && --depth == 0) return at;
  }
  return code.size();
}

/// What is declared after `static`, up to where a variable gets its value or a function its
/// parameters; `end` becomes the character there.
std::string declared(const std::string& code, std::size_t begin, char& end) {
  std::string declaration;
  for (std::size_t at = begin; at < code.size(); ++at) {
    if (code[at] == '<') {
      at = skip_template_arguments(code, at);
    } else if (std::string_view(";={(").find(code[at]) != std::string_view::npos) {
      end = code[at];
      return declaration;
    } else {
      declaration += code[at];
    }
  }
  end = '\0';
  return declaration;
}

bool is_constant(std::string_view declaration) {
  const std::size_t pointer = declaration.rfind('*');
  const std::string_view after =
      declaration.substr(pointer == std::string_view::npos ? 0 : pointer);
  return after.find("const") != std::string_view::npos;
}

}  // namespace

void check_banned_names(const Source& source, Findings& findings) {
  for (const Name& name : source.names) {
    for (const Ban& ban : kBans) {
      if (!applies(ban.where, source) || !breaks(ban, name)) continue;
      findings.push_back(
          {source.path, name.line, "banned-name", name.joined() + ": " + std::string(ban.instead)});
    }
  }
}

void check_swallowed_exceptions(const Source& source, Findings& findings) {
  if (is_trial(source)) return;
  constexpr std::string_view kCatchAll = "catch (...)";
  for (std::size_t at = source.code.find(kCatchAll); at != std::string::npos;
       at = source.code.find(kCatchAll, at + 1)) {
    const std::size_t open = source.code.find('{', at);
    if (open == std::string::npos) return;
    const std::size_t close = closing_brace(source.code, open);
    if (keeps_exception(std::string_view(source.code).substr(open, close - open))) continue;
    findings.push_back({source.path, source.line_at(at), "swallowed-exception",
                        "catch (...) must rethrow or keep std::current_exception(): it also "
                        "catches the cancellation of a task"});
  }
}

void check_mutable_statics(const Source& source, Findings& findings) {
  if (is_trial(source)) return;
  for (const std::string_view keyword : {"static ", "thread_local "}) {
    for (std::size_t at = source.code.find(keyword); at != std::string::npos;
         at = source.code.find(keyword, at + 1)) {
      char end = '\0';
      const std::string declaration = declared(source.code, at + keyword.size(), end);
      if (end == '(' || end == '\0' || is_constant(declaration)) continue;
      findings.push_back({source.path, source.line_at(at), "mutable-static",
                          "state belongs to an object that is handed in by constructor"});
    }
  }
}

}  // namespace rehearse::tidy
