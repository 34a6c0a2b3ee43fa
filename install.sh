#!/bin/sh
# Installs gpusetup: verifies its checksum and signatures, then installs the package of this system, or the files below a prefix.
#   sh install.sh [--version V] [--prefix DIR] [--dry-run] [--require-signature]
# GPUSETUP_MIRROR: the address of the releases (it has latest/download/ and download/vVERSION/), or a folder with the files of one.
set -eu

# `cargo xtask dist` fills these in: where the releases are, and the minisign keys, by commas, of which so many must have signed.
releases=
keys=
needed=1

main() {
	version='' prefix='' dry='' signed='' staging='' made=''
	while [ $# -gt 0 ]; do
		case $1 in --version | --prefix) [ -n "${2-}" ] || usage ;; esac
		case $1 in
		--version) version=$2 && shift ;;
		--version=?*) version=${1#*=} ;;
		--prefix) prefix=$2 && shift ;;
		--prefix=?*) prefix=${1#*=} ;;
		--dry-run) dry=yes ;;
		--require-signature) signed=required ;;
		*) [ "$1" != --help ] || usage 0 && usage ;;
		esac
		shift
	done
	version=${version#v}
	case $version in *[!0-9A-Za-z.+-]*) usage ;; esac
	case $prefix in '' | /*) ;; *) usage ;; esac
	from=${GPUSETUP_MIRROR:-$releases}
	case $from in
	'') fail 'no address to install from' 'GPUSETUP_MIRROR=https://mirror.example/gpusetup sh install.sh' ;;
	file://*) from=${from#file://} ;;
	/* | *://*) ;;
	*) from=$PWD/$from ;;
	esac
	origin=$(echo "$from" | sed 's,//[^/@]*@,//,') # a password is for nobody to read
	sudo="sudo env GPUSETUP_MIRROR='$origin' sh install.sh"
	[ -n "$version" ] && at=download/v$version || at=latest/download
	case $from in *://*) from=${from%/}/$at ;; esac
	arch=$(uname -m)
	case $(uname -s)-$arch in
	Linux-x86_64) deb=amd64 ;;
	Linux-aarch64) deb=arm64 ;;
	Linux-ppc64le) deb=ppc64el ;;
	*) fail "there is no gpusetup for $(uname -s) on $arch" ;;
	esac
	for tool in find gzip mktemp sed sha256sum sort tar; do have $tool || fail "$tool is missing: install it first"; done
	unset TAR_OPTIONS GZIP
	umask 022
	work=$(mktemp -d) || fail 'no temporary folder can be made' 'TMPDIR=/var/tmp sh install.sh'
	trap 'rm -rf "$work" ${staging:+"$staging"}; rmdir ${made:+"$made"} 2>/dev/null || :' EXIT
	trap 'exit 130' HUP INT QUIT TERM

	fetch SHA256SUMS
	verify_signatures
	entry="s/^[0-9a-f]\{64\}  gpusetup-\(${version:-[0-9][0-9A-Za-z.+]*}\)-$arch-linux\.tar\.gz\$/\1/p"
	offered=$(sed -n "$entry" "$work/SHA256SUMS" | sort -u)
	[ -n "$offered" ] || fail "SHA256SUMS is incomplete, or has no gpusetup ${version:+$version }for $arch"
	[ "$(echo "$offered" | wc -l)" -eq 1 ] || fail 'SHA256SUMS has several versions' 'sh install.sh --version V'
	if [ -n "$prefix" ]; then way=files
	elif have dpkg && have apt-get && [ -e /var/lib/dpkg/status ]; then way=apt
	elif have rpm && { [ -d /var/lib/rpm ] || [ -d /usr/lib/sysimage/rpm ]; }; then way=rpm
	else way=files; fi
	case $way in
	apt) file=gpusetup_$offered-1_$deb.deb ;;
	rpm) file=gpusetup-$offered-1.$arch.rpm ;;
	*) file=gpusetup-$offered-$arch-linux.tar.gz prefix=${prefix:-/usr/local} ;;
	esac
	sum=$(sed -n "s/^\([0-9a-f]\{64\}\)  $file\$/\1/p" "$work/SHA256SUMS" | head -n 1)
	[ -n "$sum" ] || fail "SHA256SUMS does not list $file"
	[ -z "$dry" ] || { say "would install gpusetup $offered: $file from $origin${prefix:+, below $prefix}" && exit 0; }
	[ $way = files ] || [ "$(id -u)" = 0 ] || fail 'only root installs packages' "$sudo, or --prefix ~/.local"
	fetch "$file"
	(cd "$work" && echo "$sum  $file" | sha256sum -c >/dev/null 2>&1) ||
		fail "$file is not what SHA256SUMS says: it was damaged on its way, or changed"
	install_$way
}

# Everything is unpacked beside its place first: a full disk leaves what was there.
install_files() {
	if [ ! -d "$prefix" ]; then mkdir "$prefix" 2>/dev/null || fail "$prefix cannot be made" "$sudo"; made=$prefix; fi
	staging=$(mktemp -d "$prefix/.gpusetup-XXXXXX" 2>/dev/null) || fail "$prefix cannot be written" "$sudo --prefix $prefix"
	tar -xzf "$work/$file" -C "$staging" --no-same-owner || fail "$file cannot be unpacked below $prefix" "df -h $prefix"
	tree=$staging/gpusetup-$offered-$arch-linux receipt=share/gpusetup/receipt
	"$tree/bin/gpusetup" --version >/dev/null || fail "the program of $file does not run here" 'ldd --version'
	old=$("$prefix/bin/gpusetup" --version 2>/dev/null | sed 's/.* //')
	newest=$(printf '%s\n' "$offered" "${old:-$offered}" | sort -V | tail -n 1)
	[ -n "$version" ] || [ "$newest" = "$offered" ] || fail "gpusetup $old is installed" "sh install.sh --version $offered"
	mkdir -p "$tree/share/gpusetup"
	files=$(cd "$tree" && find . -type f | sed 's,^\./,,' | grep -v '^bin/' | sort)
	printf '%s\n' gpusetup.receipt/1 "version $offered" "from $origin" >"$tree/$receipt"
	# The receipt first, so that what is half installed can be removed; the program last, so that the old one works until then.
	for path in $receipt $files bin/gpusetup; do echo "file $path"; done >>"$tree/$receipt"
	for path in $receipt $files bin/gpusetup; do
		mkdir -p "$prefix/${path%/*}" || fail "$prefix/${path%/*} cannot be made"
		[ "$(cd "$prefix/${path%/*}" && pwd -P)" = "$(cd "$prefix" && pwd -P)/${path%/*}" ] || fail "$prefix/${path%/*} is elsewhere"
		[ ! -d "$prefix/$path" ] || fail "$prefix/$path is a folder"
		mv -f "$tree/$path" "$prefix/$path" || fail "$prefix/$path cannot be written"
	done
	say "installed gpusetup $offered: $prefix/bin/gpusetup"
	case :$PATH: in *:"$prefix/bin":*) ;; *) say "not on PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;; esac
}
# An older version than what is installed must be asked for: the package managers refuse it, too.
install_apt() {
	chmod 755 "$work" # apt's own user reads the file
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confdef \
		-o Dpkg::Options::=--force-confold ${version:+--allow-downgrades} install "$work/$file" </dev/null >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log" >&2 && fail "apt-get could not install $file"; }
	say "installed gpusetup $offered with apt-get"
}
install_rpm() {
	rpm -U --replacepkgs ${version:+--oldpackage} "$work/$file" || fail "rpm could not install $file" "$sudo --prefix /usr/local"
	say "installed gpusetup $offered with rpm"
}
# fetch NAME: brings a file of the release.
fetch() {
	case $from in
	*://*) if have curl; then
		curl -fsSL --proto "=${from%%:*}" --retry 2 --connect-timeout 30 --speed-limit 1 --speed-time 60 -o "$work/$1" "$from/$1"
		else wget -q -T 60 -t 3 -O "$work/$1" "$from/$1"; fi ;;
	*) cp "$from/$1" "$work/$1" ;;
	esac || fail "$1 could not be fetched from $origin" "df -h ${TMPDIR:-/tmp}, or another GPUSETUP_MIRROR"
}
# Without a program to verify signatures, the checksums are all there is.
verify_signatures() {
	why='' valid=0
	[ -n "$keys" ] || why='this install.sh has no release key'
	have minisign || gpusetup self verify --help >/dev/null 2>&1 || why='neither minisign nor gpusetup is here'
	[ -z "$why" ] || [ -z "$signed" ] || fail "the signature cannot be verified: $why" 'install minisign first'
	[ -z "$why" ] || { say "warning: the signature is not verified: $why" >&2 && return; }
	fetch SHA256SUMS.minisig
	for key in $(echo "$keys" | tr , ' '); do ! signed_by "$key" || valid=$((valid + 1)); done
	[ $valid -ge $needed ] || fail "SHA256SUMS has $valid signatures by release keys, and needs $needed"
}
# signed_by KEY: whether this key signed the checksums. minisign reads the first four lines of a file.
signed_by() {
	for at in 1 5 9 13; do
		sed -n "$at,$((at + 3))p" "$work/SHA256SUMS.minisig" >"$work/one"
		! minisign -VHq -P "$1" -m "$work/SHA256SUMS" -x "$work/one" >/dev/null 2>&1 || return 0
	done
	! have minisign && echo "$1" >"$work/key" && gpusetup self verify --key "$work/key" "$work/SHA256SUMS" >/dev/null 2>&1
}
have() { command -v "$1" >/dev/null 2>&1; }
say() { printf 'gpusetup: %s\n' "$*"; }
fail() { say "$1" >&2 && { [ -z "${2-}" ] || printf '  try: %s\n' "$2" >&2; } && exit 1; }
usage() { echo 'usage: sh install.sh [--version V] [--prefix /DIR] [--dry-run] [--require-signature]' >&2 && exit "${1:-2}"; }

# At the end, so that half a script does nothing.
main "$@"
