#pragma once

#include <cstddef>
#include <vector>

#include "lib/base/message.h"
#include "lib/model/finding.h"
#include "probes/deadlock/facts.h"

namespace dlprobe::probes::deadlock {

// Waits for another thread of the same process.

/// What threading.py, queue.py and the like are asked to wait for; null without Python.
const StackFrame* asker_within(const ThreadSnapshot& thread);
/// Whether it is in a threading.Semaphore or BoundedSemaphore that others have acquired.
bool waits_for_permit(const ThreadSnapshot& thread);
/// Whether it waits for the other parties of a threading.Barrier, or of multiprocessing's, which is
/// the same with parts that processes share.
bool waits_at_barrier(const ThreadSnapshot& thread);
/// What it waits for at a queue.Queue.
enum class QueueWait {
  kNone,
  kItem,
  kRoom,
  kDone,  ///< that each item is done with: join()
};
QueueWait queue_wait(const ThreadSnapshot& thread);
/// Whether it waits for a result of a multiprocessing.Pool, which a thread of the pool hands on.
bool waits_for_pool(const ThreadSnapshot& thread);
/// Whether it is the thread by which such a pool takes its results in, or gives its tasks out.
bool hands_on_results(const ThreadSnapshot& thread);
bool hands_on_tasks(const ThreadSnapshot& thread);
/// Whether it is the thread of a multiprocessing.Queue that writes what was put into it: it wakes
/// nobody.
bool feeds_queue(const ThreadSnapshot& thread);
/// Whether its parent had more than one thread that runs Python when it forked that process.
bool had_other_threads(const Facts& facts, const ProcessKey& forked);
/// Whether it is the thread by which a ProcessPoolExecutor hears of its workers.
bool manages_an_executor(const ThreadSnapshot& thread);
/// Whether it waits in a concurrent.futures.Future for a result.
bool waits_for_future(const ThreadSnapshot& thread);
/// Whether it waits until another thread has imported a module (importlib's _ModuleLock).
bool waits_for_import(const ThreadSnapshot& thread);
/// Whether it is in a finalizer (weakref.finalize, __del__), be it one that a collection of garbage
/// calls at any line.
bool is_in_finalizer(const ThreadSnapshot& thread);
/// Whether it imports a module, which no other thread may import meanwhile.
bool is_importing(const ThreadSnapshot& thread);

/// Whether each waits on a socket whose other side is the one that the other waits on.
bool are_of_one_connection(const ThreadFacts& one, const ThreadFacts& other);

/// Whether its program, or a child's function, is through, and Python waits for a thread that is no
/// daemon.
bool is_at_end_of_program(const ThreadSnapshot& thread);
Remedy remedy_at_end_of_program();
/// Whether its program is through, and multiprocessing ends the children that are left and waits
/// for them (Lib/multiprocessing/util.py, _exit_function).
bool ends_its_children(const ThreadSnapshot& thread);
/// Whether Python ends in it: no thread of Python runs any more.
bool is_finalizing(const ThreadSnapshot& thread);

/// From a thread to the one of its process that it waits for, through one another: who is joined,
/// has the lock, or is the only one at work that could wake it. That thread alone where the next is
/// not known. Ends where it would come to one for the second time.
std::vector<size_t> way_within(const Facts& facts, size_t index);

/// From a trainer, through whoever could end each wait, to the one at which its wait most likely
/// ends: at a lock, a sleep or a pipe in code of the user's. The trainer alone where that is not
/// known.
std::vector<size_t> way_to_the_end(const Facts& facts, size_t trainer);

/// The same way, and on through processes that write what it reads, or whose end it waits for: to
/// who is at work there, if anybody is.
std::vector<size_t> way_through(const Facts& facts, size_t index);
/// Whether that is so: it ends in another process, at one who does something.
bool ends_at_work(const Facts& facts, const std::vector<size_t>& way);

/// The threads of its process, without those of `way`, that are in code of the user's.
std::vector<size_t> others_in_code(const Facts& facts, const std::vector<size_t>& way);

/// "rank 2 (4711) sleeps (upload, train.py:17)"
Message words_of_wait(const Facts& facts, const ThreadFacts& thread);

/// "; thread 12 of worker 11 waits for a child process to end (upload, train.py:9)", of all but the
/// first.
Message words_of_way(const Facts& facts, const std::vector<size_t>& way);
/// "; process 4713 (sort) waits for data in pipe 12": of the one that alone could answer, a program
/// with one thread that the job has started. Empty where it is none.
Message words_of_server(const Facts& facts, const ThreadFacts& waiter);
/// As words_of_way, of the first two of these threads, and how many more there are.
Message words_of_others(const Facts& facts, const std::vector<size_t>& others);
/// ": it is through, and thread 12 of trainer 11 keeps it alive"; empty where it goes on.
Message words_of_end(const Facts& facts, const std::vector<size_t>& way);

}  // namespace dlprobe::probes::deadlock
