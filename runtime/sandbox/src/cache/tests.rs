//! Which entries the cache keeps, and which it trusts.

use super::*;
use std::os::unix::fs::PermissionsExt;

const ENGINE: &str = "0123456789abcdef0123456789abcdef";

fn cache(folder: &Path, bytes: u64) -> Cache {
    let options = CacheOptions {
        folder: folder.join("cache"),
        bytes,
    };
    Cache::open(&options, ENGINE).unwrap()
}

fn digest(of: &str) -> Digest {
    Digest::of(of.as_bytes())
}

fn files(cache: &Cache) -> usize {
    fs::read_dir(&cache.folder).unwrap().count()
}

#[test]
fn every_process_that_shares_the_folder_reads_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    cache(folder.path(), 1 << 20).put(&digest("a"), b"code");
    let later = cache(folder.path(), 1 << 20);
    assert_eq!(later.get(&digest("a")).as_deref(), Some(&b"code"[..]));
    assert_eq!(later.get(&digest("b")), None);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&later.root), 0o700);
    assert_eq!(mode(&later.root.join("key")), 0o600);
    assert_eq!(mode(&later.path(&digest("a"))), 0o600);
}

#[test]
fn an_entry_that_was_changed_cut_or_moved_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 20);
    let path = cache.path(&digest("a"));
    cache.put(&digest("a"), b"code");
    let good = fs::read(&path).unwrap();
    for at in [0, HASHED, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, bad).unwrap();
        assert_eq!(cache.get(&digest("a")), None, "byte {at}");
    }
    for length in [0, 10, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        assert_eq!(cache.get(&digest("a")), None, "length {length}");
    }
    fs::write(cache.path(&digest("b")), &good).unwrap();
    assert_eq!(
        cache.get(&digest("b")),
        None,
        "an entry of another component"
    );
    cache.put(&digest("a"), b"code");
    assert!(cache.get(&digest("a")).is_some(), "and is replaced");
}

/// Where the code begins in an entry.
const HASHED: usize = 32;

#[test]
fn an_entry_with_another_key_or_for_another_engine_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let first = cache(folder.path(), 1 << 20);
    first.put(&digest("a"), b"code");
    let options = CacheOptions::new(folder.path().join("cache"));
    let other = Cache::open(&options, &ENGINE.replace('0', "f")).unwrap();
    fs::copy(first.path(&digest("a")), other.path(&digest("a"))).unwrap();
    assert_eq!(other.get(&digest("a")), None, "of another engine");

    fs::write(first.root.join("key"), [7; 32]).unwrap();
    let again = cache(folder.path(), 1 << 20);
    assert_eq!(again.get(&digest("a")), None, "of another key");
}

#[test]
fn a_folder_or_key_that_is_open_to_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 20);
    let options = CacheOptions::new(folder.path().join("cache"));
    for (path, open, closed) in [
        (cache.root.clone(), 0o750, 0o700),
        (cache.folder.clone(), 0o701, 0o700),
        (cache.root.join("key"), 0o640, 0o600),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
        let refused = Cache::open(&options, ENGINE).unwrap_err().to_string();
        assert!(refused.contains("is open to others"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(closed)).unwrap();
    }
    assert!(Cache::open(&options, ENGINE).is_ok());
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&cache.root, other.join(INNER)).unwrap();
    let refused = Cache::open(&CacheOptions::new(&other), ENGINE).unwrap_err();
    assert!(refused.to_string().contains("is not a folder"), "{refused}");
}

#[test]
fn a_volume_that_is_open_to_all_has_a_folder_of_this_user_alone() {
    let volume = tempfile::tempdir().unwrap();
    // As a kubelet makes an emptyDir of a pod with an fsGroup.
    fs::set_permissions(volume.path(), fs::Permissions::from_mode(0o2777)).unwrap();
    let options = CacheOptions::new(volume.path());
    let cache = Cache::open(&options, ENGINE).unwrap();
    cache.put(&digest("a"), b"code");
    assert_eq!(fs::metadata(&cache.root).unwrap().mode() & 0o777, 0o700);
    let later = Cache::open(&options, ENGINE).unwrap();
    assert_eq!(later.get(&digest("a")).as_deref(), Some(&b"code"[..]));
}

#[test]
fn an_entry_that_is_open_to_others_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 20);
    cache.put(&digest("a"), b"code");
    let path = cache.path(&digest("a"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o606)).unwrap();
    assert_eq!(cache.get(&digest("a")), None);
}

#[test]
fn a_full_cache_removes_the_entries_not_used_for_longest() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 3 * 132);
    let old = SystemTime::now() - Duration::from_secs(1000);
    for (age, of) in ["a", "b", "c"].into_iter().enumerate() {
        cache.put(&digest(of), &[0; 100]);
        let file = fs::File::open(cache.path(&digest(of))).unwrap();
        file.set_modified(old + Duration::from_secs(age as u64))
            .unwrap();
    }
    assert!(cache.get(&digest("a")).is_some(), "used: now the newest");
    cache.put(&digest("d"), &[0; 100]);
    let held = |of| cache.get(&digest(of)).is_some();
    assert_eq!(
        (held("a"), held("b"), held("c"), held("d")),
        (true, false, true, true)
    );
    cache.put(&digest("e"), &[0; 1000]);
    assert!(!held("e"), "an entry larger than the cache is not kept");
}

#[test]
fn drafts_of_writers_that_died_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 20);
    let leftover = cache.folder.join("x.1-2.tmp");
    fs::write(&leftover, b"half").unwrap();
    let fresh = cache.folder.join("y.1-3.tmp");
    fs::write(&fresh, b"half").unwrap();
    let file = fs::File::options().write(true).open(&leftover).unwrap();
    file.set_modified(SystemTime::now() - 2 * LEFTOVER).unwrap();
    cache.put(&digest("a"), b"code");
    assert!(!leftover.exists() && fresh.exists());
}

#[test]
fn files_that_are_not_of_the_cache_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 132);
    let others =
        ["admin/8080.token", "tools/x.tmp", "work/guest.cwasm"].map(|file| cache.root.join(file));
    let beside = cache.folder.join("notes.txt");
    for file in others.iter().chain([&beside]) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, [0; 100]).unwrap();
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - 2 * LEFTOVER).unwrap();
    }
    cache.put(&digest("a"), &[0; 100]);
    cache.put(&digest("b"), &[0; 100]);
    assert_eq!(cache.get(&digest("a")), None, "the cache is full");
    for file in others.iter().chain([&beside]) {
        assert!(file.exists(), "{}", file.display());
    }
}

#[test]
fn readers_never_see_half_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let code: Vec<u8> = (0..1_u32 << 18).map(|n| n as u8).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let cache = cache(folder.path(), 1 << 30);
                for _ in 0..20 {
                    cache.put(&digest("a"), &code);
                    assert_eq!(cache.get(&digest("a")).as_deref(), Some(&code[..]));
                }
            });
        }
    });
    assert_eq!(files(&cache(folder.path(), 1 << 30)), 1);
}
