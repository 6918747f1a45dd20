// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The development chain's L2 contracts.
/// They keep to the public storage layouts and call formats of the OP Stack, so that a rollup node, the engine's fee
/// rules and later upgrade transactions find what they expect; everything else is left out.

/// @notice Holds what L2 knows of its L1 origin. Only the protocol's deposits set it, in one of four formats.
contract L1Block {
    address internal constant DEPOSITOR = 0xDeaDDEaDDeAdDeAdDEAdDEaddeAddEAdDEAd0001;

    uint64 public number;
    uint64 public timestamp;
    uint256 public basefee;
    bytes32 public hash;
    uint64 public sequenceNumber;
    uint32 public blobBaseFeeScalar;
    uint32 public baseFeeScalar;
    bytes32 public batcherHash;
    uint256 public l1FeeOverhead;
    uint256 public l1FeeScalar;
    uint256 public blobBaseFee;
    uint64 public operatorFeeConstant;
    uint32 public operatorFeeScalar;
    uint16 public daFootprintGasScalar;

    error NotDepositor();

    modifier onlyDepositor() {
        if (msg.sender != DEPOSITOR) revert NotDepositor();
        _;
    }

    /// @notice The first format: one word for each value.
    function setL1BlockValues(
        uint64 _number,
        uint64 _timestamp,
        uint256 _basefee,
        bytes32 _hash,
        uint64 _sequenceNumber,
        bytes32 _batcherHash,
        uint256 _l1FeeOverhead,
        uint256 _l1FeeScalar
    ) external onlyDepositor {
        number = _number;
        timestamp = _timestamp;
        basefee = _basefee;
        hash = _hash;
        sequenceNumber = _sequenceNumber;
        batcherHash = _batcherHash;
        l1FeeOverhead = _l1FeeOverhead;
        l1FeeScalar = _l1FeeScalar;
    }

    /// @notice The packed format.
    function setL1BlockValuesEcotone() external onlyDepositor {
        _setPacked();
    }

    /// @notice The packed format with the operator fee.
    function setL1BlockValuesIsthmus() external onlyDepositor {
        _setPacked();
        _setOperatorFee();
    }

    /// @notice The packed format with the operator fee and the price of the data footprint.
    function setL1BlockValuesJovian() external onlyDepositor {
        _setPacked();
        _setOperatorFee();
        daFootprintGasScalar = uint16(bytes2(msg.data[176:178]));
    }

    function _setPacked() internal {
        baseFeeScalar = uint32(bytes4(msg.data[4:8]));
        blobBaseFeeScalar = uint32(bytes4(msg.data[8:12]));
        sequenceNumber = uint64(bytes8(msg.data[12:20]));
        timestamp = uint64(bytes8(msg.data[20:28]));
        number = uint64(bytes8(msg.data[28:36]));
        basefee = uint256(bytes32(msg.data[36:68]));
        blobBaseFee = uint256(bytes32(msg.data[68:100]));
        hash = bytes32(msg.data[100:132]);
        batcherHash = bytes32(msg.data[132:164]);
    }

    function _setOperatorFee() internal {
        operatorFeeScalar = uint32(bytes4(msg.data[164:168]));
        operatorFeeConstant = uint64(bytes8(msg.data[168:176]));
    }
}

/// @notice Records withdrawals; its storage root is what output roots commit to.
contract L2ToL1MessagePasser {
    string public constant version = "1.0.0";
    uint256 internal constant MESSAGE_VERSION = 1 << 240;
    uint256 internal constant RECEIVE_GAS_LIMIT = 100_000;

    mapping(bytes32 => bool) public sentMessages;
    uint240 internal messageCount;

    event MessagePassed(
        uint256 indexed nonce,
        address indexed sender,
        address indexed target,
        uint256 value,
        uint256 gasLimit,
        bytes data,
        bytes32 withdrawalHash
    );

    /// @notice Ether sent here is withdrawn to its sender.
    receive() external payable {
        initiateWithdrawal(msg.sender, RECEIVE_GAS_LIMIT, "");
    }

    function initiateWithdrawal(address target, uint256 gasLimit, bytes memory data) public payable {
        uint256 nonce = messageNonce();
        bytes32 withdrawal = keccak256(abi.encode(nonce, msg.sender, target, msg.value, gasLimit, data));
        sentMessages[withdrawal] = true;
        emit MessagePassed(nonce, msg.sender, target, msg.value, gasLimit, data, withdrawal);
        unchecked {
            ++messageCount;
        }
    }

    /// @notice The next withdrawal's nonce, with the version in its upper bits.
    function messageNonce() public view returns (uint256) {
        return messageCount | MESSAGE_VERSION;
    }
}

/// @notice A proxy by EIP-1967. Its administrator, and the protocol's upgrade transactions, whose sender is the zero
/// address, may change what it points to; all other calls go there.
contract Proxy {
    bytes32 internal constant IMPLEMENTATION_SLOT = bytes32(uint256(keccak256("eip1967.proxy.implementation")) - 1);
    bytes32 internal constant ADMIN_SLOT = bytes32(uint256(keccak256("eip1967.proxy.admin")) - 1);

    event Upgraded(address indexed implementation);
    event AdminChanged(address previousAdmin, address newAdmin);

    modifier forwardsOthers() {
        if (msg.sender != _load(ADMIN_SLOT) && msg.sender != address(0)) _forward();
        _;
    }

    receive() external payable {
        _forward();
    }

    fallback() external payable {
        _forward();
    }

    function upgradeTo(address target) external forwardsOthers {
        _upgrade(target);
    }

    function upgradeToAndCall(address target, bytes calldata data)
        external
        payable
        forwardsOthers
        returns (bytes memory)
    {
        _upgrade(target);
        (bool success, bytes memory result) = target.delegatecall(data);
        require(success, "the new implementation refused the call");
        return result;
    }

    function changeAdmin(address target) external forwardsOthers {
        emit AdminChanged(_load(ADMIN_SLOT), target);
        _store(ADMIN_SLOT, target);
    }

    function admin() external forwardsOthers returns (address) {
        return _load(ADMIN_SLOT);
    }

    function implementation() external forwardsOthers returns (address) {
        return _load(IMPLEMENTATION_SLOT);
    }

    function _upgrade(address target) internal {
        _store(IMPLEMENTATION_SLOT, target);
        emit Upgraded(target);
    }

    function _forward() internal {
        address target = _load(IMPLEMENTATION_SLOT);
        require(target != address(0), "the proxy has no implementation");
        assembly {
            calldatacopy(0, 0, calldatasize())
            let success := delegatecall(gas(), target, 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(success) { revert(0, returndatasize()) }
            return(0, returndatasize())
        }
    }

    function _load(bytes32 slot) internal view returns (address value) {
        assembly {
            value := sload(slot)
        }
    }

    function _store(bytes32 slot, address value) internal {
        assembly {
            sstore(slot, value)
        }
    }
}

/// @notice Takes the fees that the engine credits to it. Upgrades ask it for what the vaults after it are to keep.
contract FeeVault {
    string public constant version = "1.0.0";
    address public constant RECIPIENT = 0x6900000000000000000000000000000000000003;
    uint256 public constant MIN_WITHDRAWAL_AMOUNT = 10 ether;
    uint8 public constant WITHDRAWAL_NETWORK = 0;

    receive() external payable {}
}

/// @notice Stands where bridges, their token factories and attestations lie, which a development chain has no use for:
/// it says what upgrades ask of them, until these bring the real ones.
contract Placeholder {
    string public constant version = "1.0.0";
    address public constant OTHER_MESSENGER = 0x6900000000000000000000000000000000000004;
    uint256 public constant REMOTE_CHAIN_ID = 900;

    address internal constant TOKEN_BRIDGE = 0x4200000000000000000000000000000000000010;
    address internal constant TOKEN_FACTORY = 0x4200000000000000000000000000000000000012;
    address internal constant COLLECTIBLE_BRIDGE = 0x4200000000000000000000000000000000000014;
    address internal constant L1_TOKEN_BRIDGE = 0x6900000000000000000000000000000000000005;
    address internal constant L1_COLLECTIBLE_BRIDGE = 0x6900000000000000000000000000000000000006;

    /// @notice A bridge's counterpart on L1.
    function OTHER_BRIDGE() external view returns (address) {
        return address(this) == TOKEN_BRIDGE ? L1_TOKEN_BRIDGE : L1_COLLECTIBLE_BRIDGE;
    }

    /// @notice The bridge of a token factory.
    function BRIDGE() external view returns (address) {
        return address(this) == TOKEN_FACTORY ? TOKEN_BRIDGE : COLLECTIBLE_BRIDGE;
    }
}

/// @notice A token that anybody may mint, to make traffic with.
contract Token {
    string public constant name = "Development Token";
    string public constant symbol = "DEV";
    uint8 public constant decimals = 18;

    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    function mint(uint256 value) external {
        totalSupply += value;
        balanceOf[msg.sender] += value;
        emit Transfer(address(0), msg.sender, value);
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        allowance[from][msg.sender] -= value;
        _move(from, to, value);
        return true;
    }

    function _move(address from, address to, uint256 value) internal {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}
