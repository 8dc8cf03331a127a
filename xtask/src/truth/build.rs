//! A program of the corpus becomes words to run: compiled into `target/truth/`, or its source for an interpreter.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::header::{Language, Program};
use super::matrix::Variant;
use crate::recording::output;
use crate::run::{root, target_folder};

/// A program that can run.
pub struct Built {
    /// The program and its arguments.
    pub words: Vec<PathBuf>,
    /// What is set in its environment.
    pub environment: &'static [(&'static str, &'static str)],
}

impl Built {
    fn of(words: Vec<PathBuf>) -> Built {
        Built { words, environment: &[] }
    }
}

/// Builds it, unless that was done since its source changed.
pub fn build(program: &Program, variant: Variant) -> Result<Built, String> {
    let folder = target_folder().join("truth").join(variant.name());
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let binary = folder.join(&program.name);
    let source = &program.source;
    let script = |names: &[&str]| Ok(Built::of(vec![interpreter(names)?, source.clone()]));
    match program.language {
        Language::C => native(program, variant, if variant == Variant::Musl { "musl-gcc" } else { "gcc" }, binary),
        Language::Cpp => native(program, variant, "g++", binary),
        Language::Rust => rust(program, variant, &folder),
        Language::Go => go(program, variant, binary),
        Language::Java => java(program, &folder),
        Language::CSharp => csharp(program, &folder),
        Language::Python => script(&["/usr/bin/python3", "python3"]),
        Language::Node => script(&["/usr/bin/node", "node"]),
        Language::Ruby => script(&["/usr/bin/ruby", "ruby"]),
    }
}

fn native(program: &Program, variant: Variant, compiler: &str, binary: PathBuf) -> Result<Built, String> {
    let compiler = interpreter(&[compiler])?;
    if is_stale(&binary, &[&program.source, &root().join("fixtures/truth/truth.h")]) {
        let mut command = Command::new(compiler);
        command.args(["-O2", "-pthread", "-Wall"]).args(match variant {
            Variant::Plain => &["-g"][..],
            Variant::Stripped => &["-s"],
            Variant::Neutral => &["-g", "-DNEUTRAL"],
            Variant::Musl => &["-g", "-static"],
        });
        if program.language == Language::Cpp {
            command.arg("-std=c++20");
        }
        output(command.arg("-o").arg(&binary).arg(&program.source).args(&program.flags))?;
    }
    Ok(Built::of(vec![binary]))
}

/// All Rust programs are one package, built at once.
fn rust(program: &Program, variant: Variant, folder: &Path) -> Result<Built, String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--quiet", "--release", "--bin", &program.name]);
    command.current_dir(root().join("fixtures/truth/rust")).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.arg("--target-dir").arg(folder.join("cargo"));
    command.env("CARGO_PROFILE_RELEASE_STRIP", if variant == Variant::Stripped { "symbols" } else { "none" });
    output(&mut command)?;
    Ok(Built::of(vec![folder.join("cargo/release").join(&program.name)]))
}

fn go(program: &Program, variant: Variant, binary: PathBuf) -> Result<Built, String> {
    let go = interpreter(&["go"])?;
    if is_stale(&binary, &[&program.source]) {
        let mut command = Command::new(go);
        command.args(["build", "-o"]).arg(&binary).env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off");
        if variant == Variant::Stripped {
            command.args(["-ldflags", "-s -w"]);
        }
        output(command.arg(&program.source))?;
    }
    Ok(Built::of(vec![binary]))
}

/// Compiled beforehand: started from its source, the compiler's threads would be in the recording.
fn java(program: &Program, folder: &Path) -> Result<Built, String> {
    let (compiler, machine) = (interpreter(&["javac"])?, interpreter(&["java"])?);
    let classes = folder.join("classes").join(&program.name);
    if is_stale(&classes.join(format!("{}.class", program.name)), &[&program.source]) {
        output(Command::new(compiler).arg("-d").arg(&classes).arg(&program.source))?;
    }
    let options = program.flags.iter().map(PathBuf::from);
    let words = std::iter::once(machine).chain(options);
    Ok(Built::of(words.chain(["-cp".into(), classes, program.name.clone().into()]).collect()))
}

/// Compiled by Mono's compiler against the libraries of .NET Core: its own compiler comes with no package.
fn csharp(program: &Program, folder: &Path) -> Result<Built, String> {
    const LIBRARIES: [&str; 6] = [
        "System.Private.CoreLib",
        "System.Runtime",
        "System.Runtime.Extensions",
        "System.Console",
        "System.Threading*",
        "System.Collections*",
    ];
    let (compiler, dotnet) = (interpreter(&["mcs"])?, crate::setup::dotnet()?);
    let library = folder.join("dotnet").join(format!("{}.dll", program.name));
    if is_stale(&library, &[&program.source]) {
        std::fs::create_dir_all(folder.join("dotnet")).map_err(|why| format!("{}: {why}", folder.display()))?;
        let frameworks = dotnet.join("shared/Microsoft.NETCore.App");
        let versions = std::fs::read_dir(&frameworks).map_err(|why| format!("{}: {why}", frameworks.display()))?;
        let framework = versions.filter_map(Result::ok).map(|entry| entry.path()).max();
        let framework = framework.ok_or_else(|| format!("{}: no framework is there", frameworks.display()))?;
        let mut command = Command::new(compiler);
        command.args(["-nostdlib", "-noconfig", "-optimize+", "-langversion:7.2"]);
        command.arg(format!("-lib:{}", framework.display()));
        command.args(references(&framework, &LIBRARIES)?.iter().map(|name| format!("-r:{name}")));
        output(command.arg(format!("-out:{}", library.display())).arg(&program.source))?;
        let settings = library.with_extension("runtimeconfig.json");
        std::fs::write(&settings, RUNTIME_SETTINGS).map_err(|why| format!("{}: {why}", settings.display()))?;
    }
    // Names of what it makes as it runs, as docs/runtimes.md tells users to have them.
    Ok(Built { words: vec![dotnet.join("dotnet"), library], environment: &[("COMPlus_PerfMapEnabled", "1")] })
}

const RUNTIME_SETTINGS: &str = r#"{"runtimeOptions": {
  "tfm": "netcoreapp3.1",
  "framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"},
  "configProperties": {"System.Globalization.Invariant": true}
}}
"#;

/// The files of a framework with these names, in order; a name may end with `*`.
fn references(framework: &Path, names: &[&str]) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(framework).map_err(|why| format!("{}: {why}", framework.display()))?;
    let names_library = |file: &String| {
        let Some(library) = file.strip_suffix(".dll") else { return false };
        names.iter().any(|name| name.strip_suffix('*').map_or(*name == library, |start| library.starts_with(start)))
    };
    let files = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = files.filter(names_library).collect();
    found.sort();
    Ok(found)
}

/// The first of these programs that is there.
fn interpreter(names: &[&str]) -> Result<PathBuf, String> {
    crate::setup::found(names).ok_or_else(|| format!("{} is not here", names.last().unwrap_or(&"")))
}

/// Whether the output is missing or older than one of its sources.
fn is_stale(output: &Path, sources: &[&Path]) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let newest: Option<SystemTime> = sources.iter().filter_map(|path| changed(path)).max();
    changed(output).is_none() || changed(output) < newest
}
