//! Tools that the program downloads from the Python package index, once for each user. Entry point: [`venv`].

use super::tool::Tool;
use super::{BuildError, Machine, io_error, lock};
use std::path::{Path, PathBuf};

/// The accepted wheels of a package by their digests, from any server.
struct Wheels {
    name: &'static str,
    version: &'static str,
    /// The digests of all wheels of this version.
    sha256: &'static [&'static str],
}

/// The packages that the program downloads.
const PACKAGES: [Wheels; 3] = [
    Wheels {
        name: "componentize-py",
        version: "0.25.1",
        sha256: &[
            // macosx_10_12_x86_64, macosx_11_0_arm64, manylinux_2_28_aarch64, manylinux_2_28_x86_64, win_amd64
            "65fbc4a94df1de8acf7da50a1f5ed1711230188844e53e6332d99029be4e0afa",
            "a556991534cc496207a9d2ca733c4b0f17ed38ef56a8d6b5f1847fdf1225dd1b",
            "7b6a87c520358166843af0daa86d2312d7af4cbcbbf1e598951085cf7f2991ca",
            "8623cd8cab8453cb0cd8bf03f3c7103420d06f2f3d360186a280a70a1ca5e89f",
            "c7fd552fb0849858b0c1e8981543ed5dff4b0cc1597a8ea0bc26a495786dc0c6",
        ],
    },
    Wheels {
        name: "pyrefly",
        version: "1.4.1",
        sha256: &[
            // macosx_10_12_x86_64, macosx_11_0_arm64, manylinux on aarch64, i686, ppc64le and x86_64, musllinux on aarch64 and x86_64, win32, win_amd64, win_arm64
            "9c5a4a3f0ec00ae66a13f5741c355980685111b7008289c0b850e9be931aa3fa",
            "eaba21336993765373e7e888de90f4d58214ce38994804eef902a6c8148df21f",
            "8363f888f19b53d4b40e54d89e65b127ea68cd1cf8604de2824dffdc9d7900e9",
            "4a1d892483bda655a206b4a7578ab36aebaaf89799a7a9d29d22c0bbdc1b6ba0",
            "5353f958134522a5c45d846825b49e0049dafd73022f68d0db9e54242b3f7eeb",
            "19c35e7e63a02076fc555bdb0800302b89bb419e3de2814ab8274c0c6ac00158",
            "6035b0ff640a8e7d751f31e520b3b0dc6bb42c76a57cd43819ca0e9354cd37fe",
            "c49122412a990469ee0a9e5a50dd38f6990e42f903b3cc0f7dcf0c7a84997c65",
            "dbd065dbdc920b5e1d03bd8f035f59dae4379332ca854df8fe7ddccc43059533",
            "49d2ac460fffbe5b8e0c20e991bf87978805d7aba3bb7f04d9b53a1a0e1d6430",
            "3b5abcceca279973fa7312c958c06ee760a1b4a3feb9f3b89fd4520e53658aef",
        ],
    },
    Wheels {
        name: "ziglang",
        version: "0.17.0",
        sha256: &[
            // macosx_13_0_arm64, macosx_13_0_x86_64, Linux on i686, x86_64, aarch64 and armv7l
            "87274af689c4128051b26c80f6f676757e0a81c2fdc137fd8b5679e928e4bc4f",
            "4d910f0e363ddb60a6b8ddb55235617797a8ccbcb6c5c7132a949d9f833eea42",
            "81e3057db80fb459d1ab13c3db13dbcb1e99e91c36281661831d1916eba924de",
            "97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b",
            "d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3",
            "2f1506fbd4080ae55c7f3c5abe99cce226e563827f50e8f143e36decc615310f",
        ],
    },
];

const PYTHON: &str = "install Python 3.10 or later with venv: apt-get install python3-venv";

/// The folder of programs of a virtual environment with this version of the package. Creates the environment if it does not exist.
///
/// # Errors
/// When Python is missing or the package cannot be installed.
pub(super) async fn venv(
    guest: &Path,
    machine: &Machine,
    package: &str,
    version: &str,
) -> Result<PathBuf, BuildError> {
    let tools = tools(guest, machine);
    std::fs::create_dir_all(&tools).map_err(io_error(&tools))?;
    let requested = format!("{package}=={version}");
    let venv = tools.join(format!("{package}-{version}"));
    let (programs, complete) = (venv.join("bin"), venv.join("complete"));
    // The Python that made it may be gone: then the link has no target and is not a file.
    let usable = || complete.is_file() && programs.join("python").is_file();
    if usable() {
        return Ok(programs);
    }
    // Another build may be making it.
    let _lock = lock(&tools.join(format!("{package}-{version}.lock"))).await?;
    if usable() {
        return Ok(programs);
    }
    let wanted = tools.join(format!("{package}-{version}.txt"));
    std::fs::write(&wanted, requirement(package, version)).map_err(io_error(&wanted))?;
    Tool::new("python3", guest, PYTHON)
        .args(["-m", "venv", "--clear"])
        .arg(&venv)
        .run()
        .await?;
    let got = Tool::new(programs.join("python"), guest, PYTHON)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
            "--requirement",
        ])
        .arg(&wanted)
        .run()
        .await;
    got.map_err(|error| match error {
        BuildError::Tool { folder, .. } => BuildError::NotDownloaded {
            package: requested,
            folder,
        },
        other => other,
    })?;
    std::fs::write(&complete, "").map_err(io_error(&complete))?;
    Ok(programs)
}

/// The line of a requirements file: the version, and the digests of its wheels.
fn requirement(package: &str, version: &str) -> String {
    let mut line = format!("{package}=={version}");
    let known = |wheels: &&Wheels| wheels.name == package && wheels.version == version;
    for sha256 in PACKAGES.iter().find(known).map_or(&[][..], |it| it.sha256) {
        line.push_str(&format!(" --hash=sha256:{sha256}"));
    }
    line.push('\n');
    line
}

/// Without a folder for all projects of the user the tools are in the project.
fn tools(guest: &Path, machine: &Machine) -> PathBuf {
    let tools = machine.tools.clone();
    tools.unwrap_or_else(|| guest.join(super::TOOLS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_build::{c, python};

    #[test]
    fn every_package_that_is_got_is_known_by_what_its_wheels_are() {
        for (package, version) in [python::PACKAGE, python::CHECKER, c::ZIG] {
            let line = requirement(package, version);
            assert!(
                line.starts_with(&format!("{package}=={version} --hash=sha256:"))
                    && line.matches("--hash=sha256:").count() >= 4,
                "{line}"
            );
        }
        for sha256 in PACKAGES.iter().flat_map(|wheels| wheels.sha256) {
            assert_eq!(sha256.len(), 64);
        }
    }
}
