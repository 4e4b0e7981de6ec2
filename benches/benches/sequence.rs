//! Values per second of a sequence: one by one and many at once, from a shared block and an own one, with
//! several threads, with announced values in between, and numbered without gaps. The store costs nothing, so
//! these are the costs of the allocator alone.

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sequence::acquirer::Acquirer;
use sequence::allocator::Sequence;
use sequence::attributes::{Attributes, Contract, Options};
use sequence::slot::Slot;
use sequence::store::{Change, Store, Volatile};

fn sequence(contract: Contract) -> Arc<Sequence> {
    let options = Options { contract: Some(contract), ..Options::default() };
    Arc::new(Sequence::new(Attributes::create(&options).expect("allowed")))
}

/// The time in which one thread for each slot runs `work` `times` times.
fn measure(slots: &[Arc<Slot>], times: u64, work: impl Fn(&Slot) + Sync) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for slot in slots {
            scope.spawn(|| {
                for _ in 0..times {
                    work(slot);
                }
            });
        }
    });
    start.elapsed()
}

fn take(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("take");
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    let (fast, store) = (sequence(Contract::Fast), Volatile::default());
    let one = |slot: &Slot| {
        black_box(fast.take_one(slot, &store)).expect("a value is left");
    };
    let watched = |slot: &Slot| {
        let pass = fast.enter(slot);
        one(slot);
        drop(pass);
    };
    for threads in [1, 2] {
        group.throughput(Throughput::Elements(threads));
        let shared: Vec<Arc<Slot>> = (0..threads).map(|_| Arc::clone(fast.shared())).collect();
        group.bench_function(BenchmarkId::new("one_shared", threads), |bencher| {
            bencher.iter_custom(|times| measure(&shared, times, one));
        });
        group.bench_function(BenchmarkId::new("one_own", threads), |bencher| {
            let acquirers: Vec<Acquirer> = (0..threads).map(|_| Acquirer::default()).collect();
            let slots: Vec<Arc<Slot>> = acquirers.iter().map(|acquirer| acquirer.slot(1, &fast)).collect();
            bencher.iter_custom(|times| measure(&slots, times, one));
        });
        group.bench_function(BenchmarkId::new("one_watched", threads), |bencher| {
            bencher.iter_custom(|times| measure(&shared, times, watched));
        });
    }
    group.throughput(Throughput::Elements(100));
    group.bench_function("hundred_shared", |bencher| {
        bencher.iter(|| {
            let mut left = 100;
            while left > 0 {
                left -= fast.take(fast.shared(), left, &store).expect("values are left").run.count();
            }
        });
    });
    group.finish();
}

/// An announced value, just ahead or passed long ago, and the next value that is generated.
fn announce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("announce");
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    let (fast, store) = (sequence(Contract::Fast), Volatile::default());
    group.bench_function("ahead", |bencher| {
        bencher.iter(|| {
            let value = fast.take_one(fast.shared(), &store).expect("a value is left");
            fast.announce(fast.shared(), value + 2, &store).expect("announced");
        });
    });
    group.bench_function("behind", |bencher| {
        bencher.iter(|| fast.announce(fast.shared(), black_box(1), &store).expect("announced"));
    });
    group.finish();
}

/// A number of a gapless sequence for one document: computed, written, published.
fn number(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("number");
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    let (gapless, store) = (sequence(Contract::Gapless), Volatile::default());
    for documents in [1_u64, 100] {
        group.throughput(Throughput::Elements(documents));
        group.bench_function(BenchmarkId::new("gapless", documents), |bencher| {
            bencher.iter(|| {
                let turn = gapless.turn();
                let mut numbering = turn.number().expect("a gapless sequence");
                for _ in 0..documents {
                    black_box(numbering.take()).expect("a value is left");
                }
                let mark = numbering.mark();
                let change = Change { mark: &mark, definition: None, gaps: numbering.gaps() };
                let receipt = store.reserve(&change).expect("written");
                turn.publish(numbering, receipt);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, take, announce, number);
criterion_main!(benches);
