#!/bin/sh
# Installs gpusetup: verifies its checksum and signature, then installs the package of this system, or the files below a prefix.
#   sh install.sh [--version V] [--prefix DIR] [--dry-run] [--require-signature]
# GPUSETUP_MIRROR: the address of the releases (it has latest/download/ and download/vVERSION/), or a folder with the files of one.
# http_proxy, https_proxy and no_proxy are honoured.
set -eu

# `cargo xtask dist` fills these in: where the releases are, and the minisign keys of which one must have signed, by commas.
releases=
keys=

main() {
	version='' prefix='' dry='' signed='' staging='' made=''
	while [ $# -gt 0 ]; do
		case $1 in
		--version) version=${2-} && shift ;;
		--version=*) version=${1#*=} ;;
		--prefix) prefix=${2-} && shift ;;
		--prefix=*) prefix=${1#*=} ;;
		--dry-run) dry=yes ;;
		--require-signature) signed=required ;;
		-h | --help) usage 0 ;;
		*) usage ;;
		esac
		shift || usage
	done
	version=${version#v}
	case $version:$prefix in *[!0-9A-Za-z.+-]*:* | *:[!/]*) usage ;; esac
	origin=${GPUSETUP_MIRROR:-$releases}
	case $origin in
	'') fail 'no address to install from' 'GPUSETUP_MIRROR=https://mirror.example/gpusetup sh install.sh' ;;
	*://*) if [ -n "$version" ]; then from=${origin%/}/download/v$version; else from=${origin%/}/latest/download; fi ;;
	/*) from=$origin ;;
	*) from=$PWD/$origin ;;
	esac
	arch=$(uname -m)
	case $(uname -s)-$arch in
	Linux-x86_64) deb=amd64 ;;
	Linux-aarch64) deb=arm64 ;;
	Linux-ppc64le) deb=ppc64el ;;
	*) fail "there is no gpusetup for $(uname -s) on $arch" ;;
	esac
	umask 022
	work=$(mktemp -d) || fail 'no temporary folder can be made' 'TMPDIR=/var/tmp sh install.sh'
	trap 'rm -rf "$work" ${staging:+"$staging"}; rmdir ${made:+"$made"} 2>/dev/null || :' EXIT
	trap 'exit 130' HUP INT TERM

	fetch SHA256SUMS
	verify_signature
	entry="s/^[0-9a-f]\{64\}  gpusetup-\([0-9][0-9A-Za-z.+]*\)-$arch-linux\.tar\.gz\$/\1/p"
	offered=$(sed -n "$entry" "$work/SHA256SUMS" | head -n 1)
	[ -n "$offered" ] || fail "SHA256SUMS of $from is incomplete, or the release is not for $arch"
	[ "${version:-$offered}" = "$offered" ] || fail "$from has version $offered, not $version"
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
	[ -n "$sum" ] || fail "SHA256SUMS of $from does not list $file"
	if [ -n "$dry" ]; then
		say "would install gpusetup $offered: $from/$file${prefix:+, below $prefix}"
		return
	fi
	elsewhere="sudo sh install.sh, or: sh install.sh --prefix ${HOME:-/opt}/.local"
	[ $way = files ] || [ "$(id -u)" = 0 ] || fail 'only root installs packages' "$elsewhere"
	fetch "$file"
	echo "$sum  $work/$file" | sha256sum -c >/dev/null 2>&1 ||
		fail "$file is not what SHA256SUMS says: it was damaged on its way, or changed"
	install_$way
}

# Everything is unpacked beside its place first: a full disk leaves what was there.
install_files() {
	[ -d "$prefix" ] || made=$prefix
	mkdir -p "$prefix" 2>/dev/null || fail "$prefix cannot be made" "$elsewhere"
	staging=$(mktemp -d "$prefix/.gpusetup-XXXXXX" 2>/dev/null) || fail "$prefix cannot be written" "$elsewhere"
	tar -xzf "$work/$file" -C "$staging" --no-same-owner || fail "$file cannot be unpacked below $prefix" "df -h $prefix"
	tree=$staging/gpusetup-$offered-$arch-linux
	"$tree/bin/gpusetup" --version >/dev/null || fail "the program of $file does not run here" 'ldd --version'
	old=$("$prefix/bin/gpusetup" --version 2>/dev/null | sed 's/.* //')
	newest=$(printf '%s\n' "$offered" "${old:-$offered}" | sort -V | tail -n 1)
	[ -n "$version" ] || [ "$newest" = "$offered" ] || fail "gpusetup $old is installed" "sh install.sh --version $offered"
	receipt=share/gpusetup/receipt
	files=$(cd "$tree" && find . -type f | sed 's,^\./,,' | grep -v '^bin/' | sort)
	mkdir -p "$tree/share/gpusetup"
	printf '%s\n' gpusetup.receipt/1 "version $offered" "from $origin" >"$tree/$receipt"
	# The receipt first, so that what is half installed can be removed; the program last, so that the old one works until then.
	for path in $receipt $files bin/gpusetup; do echo "file $path"; done >>"$tree/$receipt"
	for path in $receipt $files bin/gpusetup; do
		{ mkdir -p "$prefix/${path%/*}" && mv -f "$tree/$path" "$prefix/$path"; } || fail "$prefix/$path cannot be written"
	done
	say "installed gpusetup $offered: $prefix/bin/gpusetup"
	case :$PATH: in *:"$prefix/bin":*) ;; *) say "not on PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;; esac
}

# An older version than what is installed must be asked for: the package managers refuse it, too.
install_apt() {
	chmod 755 "$work" # apt's own user reads the file
	DEBIAN_FRONTEND=noninteractive apt-get -q -y ${version:+--allow-downgrades} install "$work/$file" >"$work/log" 2>&1 ||
		fail "apt-get could not install $file: $(grep '^E:' "$work/log")" 'apt-get check'
	say "installed gpusetup $offered with apt-get"
}

install_rpm() {
	rpm -U --replacepkgs ${version:+--oldpackage} "$work/$file" || fail "rpm could not install $file"
	say "installed gpusetup $offered with rpm"
}

# fetch NAME: brings a file of the release.
fetch() {
	case $from in
	*://*) if have curl; then curl -fsSL --proto "=${from%%:*}" --retry 2 --connect-timeout 30 -o "$work/$1" "$from/$1"
		elif have wget; then wget -q -T 30 -t 3 -O "$work/$1" "$from/$1"
		else fail 'neither curl nor wget is here' 'GPUSETUP_MIRROR=/folder/with/the/files sh install.sh'; fi ;;
	*) cp "$from/$1" "$work/$1" ;;
	esac || fail "$from/$1 could not be fetched" "curl -I $from/$1, df -h $work"
}

# One of the keys must have signed the checksums. Without a program to verify that, the checksums are all there is.
verify_signature() {
	if [ -z "$keys" ]; then why='this install.sh has no release key'
	elif have minisign || gpusetup self verify --help >/dev/null 2>&1; then why=''
	else why='neither minisign nor gpusetup is here'; fi
	if [ -n "$why" ]; then
		[ -z "$signed" ] || fail "the signature cannot be verified: $why" 'install minisign with the package manager'
		say "warning: the signature is not verified: $why" >&2
		return
	fi
	fetch SHA256SUMS.minisig
	for key in $(echo "$keys" | tr , ' '); do
		if have minisign; then minisign -Vq -P "$key" -m "$work/SHA256SUMS" >/dev/null 2>&1 && return
		else echo "$key" >"$work/key" && gpusetup self verify --key "$work/key" "$work/SHA256SUMS" >/dev/null 2>&1 && return; fi
	done
	fail "SHA256SUMS of $from is not signed with the release key"
}

have() { command -v "$1" >/dev/null 2>&1; }
say() { printf 'gpusetup: %s\n' "$*"; }
fail() {
	printf 'gpusetup: %s\n%s' "$1" "${2:+  try: $2
}" >&2
	exit 1
}
usage() { echo 'usage: sh install.sh [--version V] [--prefix /DIR] [--dry-run] [--require-signature]' >&2 && exit "${1:-2}"; }

# At the end, so that half a script does nothing.
main "$@"
