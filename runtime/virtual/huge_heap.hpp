#pragma once

namespace rehearse::virtual_world {

/// What this process allocates next lies in huge pages, where the system has them. Thousands of
/// workers touch more small pages than a processor keeps translations of, and in a virtual machine
/// each of those it lacks costs as much as several cache misses. Takes addresses, no memory.
/// For whoever owns the process: before the job is made.
void use_huge_pages_for_the_heap();

}  // namespace rehearse::virtual_world
