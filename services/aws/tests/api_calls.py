"""A resource of Pulumi's AWS provider as calls of AWS's API. The provider's inputs are those of the
API under other names, for these types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    service: str
    operation: str  # of boto3: "create_vpc"
    parameters: dict[str, Any]
    played: bool = True  # whether moto has it


def calls_of(type_: str, inputs: Inputs) -> Iterator[Call]:
    """Raises KeyError for a type that is not known here."""
    made = _TYPES[type_.rpartition(":")[2]](inputs)
    yield from made if isinstance(made, list) else [made]


def _given(**parameters: Any) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if value is not None}


def _tags(inputs: Inputs) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in inputs.get("tags", {}).items()]


def _specified(kind: str, inputs: Inputs) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": _tags(inputs)}]


def _vpc(i: Inputs) -> Call:
    tags = _specified("vpc", i)
    return Call("ec2", "create_vpc", _given(CidrBlock=i["cidrBlock"], TagSpecifications=tags))


def _subnet(i: Inputs) -> Call:
    return Call(
        "ec2",
        "create_subnet",
        _given(
            VpcId=i["vpcId"],
            AvailabilityZone=i["availabilityZone"],
            CidrBlock=i["cidrBlock"],
            TagSpecifications=_specified("subnet", i),
        ),
    )


def _route_table(i: Inputs) -> Call:
    tags = _specified("route-table", i)
    return Call("ec2", "create_route_table", _given(VpcId=i["vpcId"], TagSpecifications=tags))


def _association(i: Inputs) -> Call:
    parameters = _given(RouteTableId=i["routeTableId"], SubnetId=i["subnetId"])
    return Call("ec2", "associate_route_table", parameters)


def _route(i: Inputs) -> Call:
    return Call(
        "ec2",
        "create_route",
        _given(
            RouteTableId=i["routeTableId"],
            DestinationCidrBlock=i["destinationCidrBlock"],
            GatewayId=i.get("gatewayId"),
            NatGatewayId=i.get("natGatewayId"),
        ),
    )


def _internet_gateway(i: Inputs) -> Call:
    tags = _specified("internet-gateway", i)
    return Call("ec2", "create_internet_gateway", _given(TagSpecifications=tags))


def _address(i: Inputs) -> Call:
    tags = _specified("elastic-ip", i)
    return Call("ec2", "allocate_address", _given(Domain=i["domain"], TagSpecifications=tags))


def _nat_gateway(i: Inputs) -> Call:
    return Call(
        "ec2",
        "create_nat_gateway",
        _given(
            AllocationId=i["allocationId"],
            SubnetId=i["subnetId"],
            TagSpecifications=_specified("natgateway", i),
        ),
    )


def _endpoint(i: Inputs) -> Call:
    return Call(
        "ec2",
        "create_vpc_endpoint",
        _given(
            VpcId=i["vpcId"],
            ServiceName=i["serviceName"],
            VpcEndpointType=i["vpcEndpointType"],
            RouteTableIds=i.get("routeTableIds"),
            SubnetIds=i.get("subnetIds"),
            SecurityGroupIds=i.get("securityGroupIds"),
            PrivateDnsEnabled=i.get("privateDnsEnabled"),
            TagSpecifications=_specified("vpc-endpoint", i),
        ),
    )


def _group(i: Inputs) -> Call:
    return Call(
        "ec2",
        "create_security_group",
        _given(
            GroupName=i["name"],
            Description=i["description"],
            VpcId=i["vpcId"],
            TagSpecifications=_specified("security-group", i),
        ),
    )


def _rule(operation: str) -> Any:
    def call(i: Inputs) -> Call:
        description = {"Description": i["description"]}
        permission = _given(
            IpProtocol=i["ipProtocol"], FromPort=i.get("fromPort"), ToPort=i.get("toPort")
        )
        if "referencedSecurityGroupId" in i:
            pair = {"GroupId": i["referencedSecurityGroupId"], **description}
            permission["UserIdGroupPairs"] = [pair]
        if "prefixListId" in i:
            permission["PrefixListIds"] = [{"PrefixListId": i["prefixListId"], **description}]
        if "cidrIpv4" in i:
            permission["IpRanges"] = [{"CidrIp": i["cidrIpv4"], **description}]
        parameters = _given(GroupId=i["securityGroupId"], IpPermissions=[permission])
        return Call("ec2", operation, parameters)

    return call


def template_data(i: Inputs) -> dict[str, Any]:
    """The provider keeps some booleans as texts."""
    data = {key: i.get(key) for key in ("imageId", "instanceType", "userData")}
    data = {f"{key[0].upper()}{key[1:]}": value for key, value in data.items()}
    names = ("metadataOptions", "placement", "iamInstanceProfile", "instanceMarketOptions")
    for name in (*names, "capacityReservationSpecification"):
        data[f"{name[0].upper()}{name[1:]}"] = _renamed(i[name]) if name in i else None
    devices, cards = i.get("blockDeviceMappings"), i.get("networkInterfaces")
    data["BlockDeviceMappings"] = _renamed(devices) if devices else None
    data["NetworkInterfaces"] = _renamed(cards) if cards else None
    data["TagSpecifications"] = [
        {"ResourceType": each["resourceType"], "Tags": _tags(each)}
        for each in i.get("tagSpecifications", ())
    ]
    return _given(**data)


_OTHER_NAMES = {"securityGroups": "Groups"}
_BOOLEANS = ("encrypted", "deleteOnTermination")


def _renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _OTHER_NAMES.get(key, f"{key[0].upper()}{key[1:]}"): (
            each == "true" if key in _BOOLEANS and isinstance(each, str) else _renamed(each)
        )
        for key, each in value.items()
    }


def _template(i: Inputs) -> Call:
    parameters = _given(
        LaunchTemplateName=i["name"],
        LaunchTemplateData=template_data(i),
        TagSpecifications=_specified("launch-template", i),
    )
    return Call("ec2", "create_launch_template", parameters)


def _instance(i: Inputs) -> Call:
    template = i["launchTemplate"]
    return Call(
        "ec2",
        "run_instances",
        _given(
            MinCount=1,
            MaxCount=1,
            LaunchTemplate={
                "LaunchTemplateId": template["id"],
                "Version": template["version"],
            },
            InstanceType=i["instanceType"],
            SubnetId=i["subnetId"],
            PrivateIpAddress=i["privateIp"],
            SecurityGroupIds=i["vpcSecurityGroupIds"],
            IamInstanceProfile={"Name": i["iamInstanceProfile"]},
            UserData=i.get("userData"),
            TagSpecifications=_specified("instance", i),
        ),
    )


def _placement_group(i: Inputs) -> Call:
    parameters = _given(GroupName=i["name"], Strategy=i["strategy"])
    parameters["TagSpecifications"] = _specified("placement-group", i)
    return Call("ec2", "create_placement_group", parameters, played=False)


def _connect(i: Inputs) -> Call:
    parameters = _given(
        SubnetId=i["subnetId"],
        SecurityGroupIds=i["securityGroupIds"],
        PreserveClientIp=i["preserveClientIp"],
        TagSpecifications=_specified("instance-connect-endpoint", i),
    )
    return Call("ec2", "create_instance_connect_endpoint", parameters, played=False)


def _role(i: Inputs) -> Call:
    return Call(
        "iam",
        "create_role",
        _given(
            RoleName=i["name"],
            Description=i["description"],
            AssumeRolePolicyDocument=i["assumeRolePolicy"],
            Tags=_tags(i),
        ),
    )


def _role_policy(i: Inputs) -> Call:
    parameters = _given(RoleName=i["role"], PolicyName=i["name"], PolicyDocument=i["policy"])
    return Call("iam", "put_role_policy", parameters)


def _profile(i: Inputs) -> list[Call]:
    name = i["name"]
    joined = _given(InstanceProfileName=name, RoleName=i["role"])
    return [
        Call("iam", "create_instance_profile", _given(InstanceProfileName=name, Tags=_tags(i))),
        Call("iam", "add_role_to_instance_profile", joined),
    ]


def _secret(i: Inputs) -> Call:
    return Call(
        "secretsmanager",
        "create_secret",
        _given(
            Name=i["name"],
            Description=i["description"],
            KmsKeyId=i.get("kmsKeyId"),
            Tags=_tags(i),
        ),
    )


def _secret_version(i: Inputs) -> Call:
    parameters = _given(SecretId=i["secretId"], SecretString=i["secretString"])
    return Call("secretsmanager", "put_secret_value", parameters)


def _bucket(i: Inputs) -> Call:
    return Call("s3", "create_bucket", _given(Bucket=i["bucket"]))


def _private(i: Inputs) -> Call:
    wanted = {f"{key[0].upper()}{key[1:]}": value for key, value in i.items() if key != "bucket"}
    parameters = _given(Bucket=i["bucket"], PublicAccessBlockConfiguration=wanted)
    return Call("s3", "put_public_access_block", parameters)


def _encryption(i: Inputs) -> Call:
    (rule,) = i["rules"]
    default = rule["applyServerSideEncryptionByDefault"]
    wanted = _given(
        SSEAlgorithm=default["sseAlgorithm"], KMSMasterKeyID=default.get("kmsMasterKeyId")
    )
    rules = [
        {
            "ApplyServerSideEncryptionByDefault": wanted,
            "BucketKeyEnabled": rule["bucketKeyEnabled"],
        }
    ]
    parameters = _given(Bucket=i["bucket"], ServerSideEncryptionConfiguration={"Rules": rules})
    return Call("s3", "put_bucket_encryption", parameters)


def _bucket_policy(i: Inputs) -> Call:
    return Call("s3", "put_bucket_policy", _given(Bucket=i["bucket"], Policy=i["policy"]))


def _object(i: Inputs) -> Call:
    parameters = _given(
        Bucket=i["bucket"],
        Key=i["key"],
        Body=i["content"].encode(),
        ContentType=i["contentType"],
    )
    return Call("s3", "put_object", parameters)


def _auto_scaling(i: Inputs) -> Call:
    template = i["launchTemplate"]
    tags = [
        {
            "Key": each["key"],
            "Value": each["value"],
            "PropagateAtLaunch": each["propagateAtLaunch"],
        }
        for each in i["tags"]
    ]
    parameters = _given(
        AutoScalingGroupName=i["name"],
        MinSize=i["minSize"],
        MaxSize=i["maxSize"],
        DesiredCapacity=i["desiredCapacity"],
        LaunchTemplate={"LaunchTemplateId": template["id"], "Version": template["version"]},
        VPCZoneIdentifier=",".join(i["vpcZoneIdentifiers"]),
        CapacityRebalance=i["capacityRebalance"],
        HealthCheckType=i["healthCheckType"],
        Tags=tags,
    )
    return Call("autoscaling", "create_auto_scaling_group", parameters)


def _hook(i: Inputs) -> Call:
    return Call(
        "autoscaling",
        "put_lifecycle_hook",
        {
            "LifecycleHookName": i["name"],
            "AutoScalingGroupName": i["autoscalingGroupName"],
            "LifecycleTransition": i["lifecycleTransition"],
            "HeartbeatTimeout": i["heartbeatTimeout"],
            "DefaultResult": i["defaultResult"],
        },
    )


def _balancer(i: Inputs) -> list[Call]:
    parameters = _given(
        Name=i["name"],
        Type=i["loadBalancerType"],
        Scheme="internal" if i["internal"] else "internet-facing",
        Subnets=i["subnets"],
        SecurityGroups=i["securityGroups"],
        Tags=_tags(i),
    )
    return [Call("elbv2", "create_load_balancer", parameters)]


def _targets(i: Inputs) -> Call:
    health = i["healthCheck"]
    return Call(
        "elbv2",
        "create_target_group",
        _given(
            Name=i["name"],
            VpcId=i["vpcId"],
            TargetType=i["targetType"],
            Protocol=i["protocol"],
            Port=i["port"],
            HealthCheckProtocol=health["protocol"],
            HealthCheckPath=health["path"],
            HealthCheckIntervalSeconds=health["interval"],
            HealthCheckTimeoutSeconds=health["timeout"],
            HealthyThresholdCount=health["healthyThreshold"],
            UnhealthyThresholdCount=health["unhealthyThreshold"],
            Matcher={"HttpCode": health["matcher"]},
            Tags=_tags(i),
        ),
    )


def _listener(i: Inputs) -> Call:
    (action,) = i["defaultActions"]
    actions = [{"Type": action["type"], "TargetGroupArn": action["targetGroupArn"]}]
    return Call(
        "elbv2",
        "create_listener",
        _given(
            LoadBalancerArn=i["loadBalancerArn"],
            Protocol=i["protocol"],
            Port=i["port"],
            DefaultActions=actions,
            Tags=_tags(i),
        ),
    )


def _target(i: Inputs) -> Call:
    targets = [{"Id": i["targetId"], "Port": i["port"]}]
    return Call(
        "elbv2", "register_targets", {"TargetGroupArn": i["targetGroupArn"], "Targets": targets}
    )


def _default_group(i: Inputs) -> list[Call]:
    return []  # the provider only removes its rules


_TYPES = {
    "Vpc": _vpc,
    "LifecycleHook": _hook,
    "Subnet": _subnet,
    "RouteTable": _route_table,
    "RouteTableAssociation": _association,
    "Route": _route,
    "InternetGateway": _internet_gateway,
    "Eip": _address,
    "NatGateway": _nat_gateway,
    "VpcEndpoint": _endpoint,
    "SecurityGroup": _group,
    "DefaultSecurityGroup": _default_group,
    "SecurityGroupIngressRule": _rule("authorize_security_group_ingress"),
    "SecurityGroupEgressRule": _rule("authorize_security_group_egress"),
    "LaunchTemplate": _template,
    "Instance": _instance,
    "PlacementGroup": _placement_group,
    "InstanceConnectEndpoint": _connect,
    "Role": _role,
    "RolePolicy": _role_policy,
    "InstanceProfile": _profile,
    "Secret": _secret,
    "SecretVersion": _secret_version,
    "Bucket": _bucket,
    "BucketPublicAccessBlock": _private,
    "BucketServerSideEncryptionConfiguration": _encryption,
    "BucketPolicy": _bucket_policy,
    "BucketObjectv2": _object,
    "Group": _auto_scaling,
    "LoadBalancer": _balancer,
    "TargetGroup": _targets,
    "Listener": _listener,
    "TargetGroupAttachment": _target,
}
